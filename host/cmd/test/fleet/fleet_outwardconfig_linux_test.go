package fleet

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetOutwardConfig changes the configuration of a fleet with an outward node, and upgrades it. The outward node
// keeps its own configuration, which contains the rules for what the others can do there, until its own operator
// changes it. It is upgraded only if it is named.
func TestFleetOutwardConfig(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "", "")
	file := func() string {
		b, err := os.ReadFile(o.laptop.config)
		hosttest.Must(t, err)
		return string(b)
	}
	own := file() + "permissions {\n  deny \"dates\" {\n    command = [\"date *\"]\n  }\n}\n"
	o.laptop.kill()
	hosttest.Must(t, os.WriteFile(o.laptop.config, []byte(own), 0o644))
	o.laptop.run()
	ready := func(when string) {
		t.Helper()
		hosttest.Wait(t, when+": all nodes are ready", func() bool {
			st := o.east.states()
			return st["east"] == "ready" && st["west"] == "ready" && st["laptop"] == "ready"
		})
	}
	ready("the laptop has rules of its own")

	next := filepath.Join(o.dir, "next.hcl")
	hosttest.Must(t, os.WriteFile(next, []byte("host {\n  shutdown_timeout = \"20s\"\n}\n"), 0o644))
	o.east.refused("only its own operator", "fleet", "config", "push", next, "--canary", "laptop")
	o.east.do("fleet", "config", "push", next, "--canary", "west")
	if out := o.east.do("fleet", "rollout", "--json"); strings.Contains(out, "laptop") {
		t.Errorf("the laptop takes part in the trial: %s", out)
	}
	o.east.do("fleet", "config", "promote")
	o.east.refused("only its own operator", "fleet", "config", "pull", "laptop")
	ready("after the promotion")
	if file() != own {
		t.Errorf("the configuration of the laptop is %s", file())
	}
	if res := resultOf(t, o.east.begin(fleetCall{Command: "date +%Y", Workspace: "@laptop", Session: "rules"})); res.Success {
		t.Errorf("a call against the rules of the laptop: %s", res)
	}

	machines := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := o.nodes[strings.TrimPrefix(r.URL.Path, "/")]
		n.signal(syscall.SIGTERM)
		<-n.ended
		if err := n.tryRun(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer machines.Close()
	command := "curl -sSf " + machines.URL + "/$TOOLHOST_NODE"
	if out := o.east.do("fleet", "upgrade", "--command", command, "--json"); !strings.Contains(out, `"upgraded":["west","east"]`) {
		t.Errorf("the upgrade: %s", out)
	}
	ready("after the upgrade")
	o.east.do("fleet", "session", "remove", "rules")
	if out := o.east.do("fleet", "upgrade", "--command", command, "--node", "laptop", "--json"); !strings.Contains(out, `"upgraded":["laptop"]`) {
		t.Errorf("the upgrade of the laptop: %s", out)
	}
	ready("after the upgrade of the laptop")

	o.laptop.do("fleet", "config", "pull")
	if text := file(); !strings.Contains(text, "20s") || !strings.Contains(text, "outward ") || strings.Contains(text, "dates") {
		t.Errorf("the laptop pulled the configuration %s", text)
	}
}
