package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// variant starts a node whose configuration differs in one text. Its workspace is in another directory.
func (f *testFleet) variant(name, old, text string) *fleetNode {
	f.t.Helper()
	b, err := os.ReadFile(f.config)
	hosttest.Must(f.t, err)
	own := filepath.Join(f.dir, name+"-repo")
	hosttest.Must(f.t, os.MkdirAll(own, 0o755))
	config := filepath.Join(f.dir, "etc", name+".hcl")
	hosttest.Must(f.t, os.WriteFile(config, []byte(strings.Replace(strings.Replace(string(b), f.workspace, own, 1), old, text, 1)), 0o644))
	return f.startNode(&fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(f.t), config: config})
}

// TestFleetOtherFiles checks that a session never goes to a node that has other files under the name of its workspace,
// and that the messages name both files. A node with the same files then goes on with the session.
func TestFleetOtherFiles(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one")
	one := f.nodes["one"]
	one.want("s", "echo first > notes.txt; COLOR=green")
	other := f.variant("other", `"the-repo"`, `"other-repo"`)
	local := f.variant("local", "shared = \"the-repo\"\n", "")
	for _, args := range [][]string{{"fleet", "move", "s"}, {"fleet", "move", "s", "--to", "other"}, {"fleet", "move", "s", "--to", "local"}, {"fleet", "drain", "one", "--wait", "1s"}} {
		_, err := other.try(args...)
		if said := fmt.Sprint(err); err == nil || !strings.Contains(said, "the-repo") || !strings.Contains(said, "other-repo") && !strings.Contains(said, "has no shared") {
			t.Errorf("toolhost %s: %s", strings.Join(args, " "), said)
		}
	}
	one.signal(syscall.SIGKILL)
	<-one.ended
	for _, n := range []*fleetNode{other, local} {
		res, err := n.call(t.Context(), fleetCall{Command: "echo second >> notes.txt", Session: "s"})
		hosttest.Must(t, err)
		if res.Error == nil || !strings.Contains(res.Error.Message, "the-repo") || !strings.Contains(res.Error.Message, "other-repo") {
			t.Errorf("%s: a call after the death of the only node with the files: %s", n.name, res)
		}
		if _, err := os.Stat(filepath.Join(f.dir, n.name+"-repo", "notes.txt")); err == nil {
			t.Errorf("the call changed the files of %s", n.name)
		}
	}
	one.run()
	if out := other.want("s", "cat notes.txt; echo $COLOR").Output; out != "first\ngreen\n" {
		t.Errorf("%q", out)
	}
}
