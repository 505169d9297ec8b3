package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/local"
	"toolhost.dev/sdk/tool"
)

// clientEnv turns this test program into a program that calls the node with a state directory. confinedEnv makes it
// give up privileges first, as programs in the sandbox have.
const (
	clientEnv   = "TOOLHOST_TEST_CLIENT"
	confinedEnv = "TOOLHOST_TEST_CONFINED"
)

func init() { runtime.LockOSThread() } // TestMain must run on the main thread

func TestMain(m *testing.M) {
	state := os.Getenv(clientEnv)
	if state == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(confinedEnv) != "" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
	}
	h, err := newHost(state)
	if err != nil {
		panic(err)
	}
	n, err := local.Dial(h)
	if err != nil {
		panic(err)
	}
	h.Join(n)
	fmt.Println(h.Run(context.Background(), host.Request{Command: "ls", Workspace: "repo@laptop"}, nil).Error)
	os.Exit(0)
}

func newHost(state string) (*host.Host, error) {
	config := filepath.Join(state, "none.hcl")
	for _, dir := range []string{state, state + "-work"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(config, []byte("bundled = false\n"), 0o600); err != nil {
		return nil, err
	}
	return host.New(context.Background(), host.Options{Config: config, StateDir: state, Workspace: state + "-work"})
}

// refusing is a fleet that refuses each request with the workspace that it names.
type refusing struct{}

func (refusing) Stats() host.FleetStats { return host.FleetStats{} }

func (refusing) Begin(req host.Request, _ host.Client) host.Queued { return refused{req} }

type refused struct{ req host.Request }

func (refused) Native() bool { return false }

func (r refused) Run(context.Context) *tool.Result {
	return tool.Failed(tool.Errorf(tool.NotFound, "refused in %s", r.req.Workspace))
}

// TestOnlyUnconfinedPrograms checks that the socket serves programs of the user, but not those in a sandbox.
func TestOnlyUnconfinedPrograms(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	h, err := newHost(state)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.Join(refusing{})
	dir := filepath.Join(state, "fleet")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stop, err := local.Serve(h, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for confined, want := range map[string]string{"": "refused in repo@laptop", "1": "does not answer"} {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), clientEnv+"="+state, confinedEnv+"="+confined)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("confined %q: %v %s", confined, err, out)
		}
	}
}

// TestNoNode checks the error without a node.
func TestNoNode(t *testing.T) {
	h, err := newHost(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if n, err := local.Dial(h); err == nil || !strings.Contains(err.Error(), "toolhost serve --fleet") {
		t.Errorf("%v %v", n, err)
	}
}
