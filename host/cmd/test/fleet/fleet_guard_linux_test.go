package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// plugins returns the command lines of the plugins that the node runs.
func (n *fleetNode) plugins() (out []string) {
	for _, p := range hosttest.Descendants() {
		if command := p.Command(); p.Parent() == n.cmd.Process.Pid && strings.Contains(command, "/plugins/") {
			out = append(out, command)
		}
	}
	return out
}

// TestFleetGuardsFirstProcesses checks that the guard also ends plugins that started before the node had a lease. A
// node without saved descriptions starts its plugins at once, because it must ask them for their tools.
func TestFleetGuardsFirstProcesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "")
	n := &fleetNode{fleet: f, name: "one", state: filepath.Join(f.dir, "one", "state"), listen: fleetPort(t), args: []string{"--workspace", f.workspace}}
	hosttest.Must(t, os.MkdirAll(n.state, 0o700)) // so it does not get the saved descriptions
	f.startNode(n)
	if said := n.said(); strings.Contains(said, "cannot") {
		t.Logf("node %s:\n%s", n.name, said)
	}
	n.runs("true")
	if len(n.plugins()) == 0 {
		t.Fatal("the test finds no process of a plugin")
	}
	hosttest.Wait(t, "all processes of plugins have ended with the lease", func() bool {
		n.signal(syscall.SIGSTOP)
		for range 100 { // the lease ends after two seconds
			if time.Sleep(100 * time.Millisecond); len(n.plugins()) == 0 {
				return true
			}
		}
		n.signal(syscall.SIGCONT) // the node was stopped between the start of a process and its registration with the guard
		return false
	})
	n.signal(syscall.SIGCONT)
	n.runs("echo back")
}

// runs calls a command until it succeeds. On a busy machine, the node can lose its lease, which ends its calls.
func (n *fleetNode) runs(command string) {
	n.fleet.t.Helper()
	hosttest.Wait(n.fleet.t, "the node runs "+command, func() bool {
		res, err := n.call(n.fleet.t.Context(), fleetCall{Command: command, Session: "s"})
		return err == nil && res.Success
	})
}
