package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetUndoStays checks that the data for an undo stays on its node when a session moves, is drained, or is taken
// by another node. The error must name this node, and it must be possible to undo the change there. Branches must be
// refused.
func TestFleetUndoStays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	file := func(session string) string { return filepath.Join(f.workspace, session+".txt") }
	write := func(n *fleetNode, session, text string) {
		t.Helper()
		res, err := n.call(t.Context(), fleetCall{Name: "write", Arguments: map[string]any{"file_path": file(session), "content": text}, Session: session})
		if err != nil || !res.Success {
			t.Fatalf("%v %v", res, err)
		}
	}
	undo := func(n *fleetNode, session string) *fleetResult {
		t.Helper()
		res, err := n.call(t.Context(), fleetCall{Command: "undo", Session: session})
		hosttest.Must(t, err)
		return res
	}
	refused := func(n *fleetNode, session string, from *fleetNode) {
		t.Helper()
		if res := undo(n, session); res.Success || !strings.Contains(res.String(), "stayed there") || !strings.Contains(res.String(), "--to "+from.name) {
			t.Errorf("undo of a change at %s: %s", from.name, res)
		}
	}
	ways := map[string]func(owner, other *fleetNode){
		"move": func(owner, _ *fleetNode) { owner.do("fleet", "move", "move") },
		"drain": func(owner, other *fleetNode) {
			other.do("fleet", "drain", owner.name)
			other.do("fleet", "undrain", owner.name)
		},
		"takeover": func(owner, _ *fleetNode) {
			owner.signal(syscall.SIGTERM)
			<-owner.ended
		},
	}
	for way, leave := range ways {
		write(f.nodes["one"], way, way+" first\n")
		write(f.nodes["two"], way, way+" second\n")
		owner, other := f.owner(way)
		leave(owner, other)
		refused(other, way, owner)
		if owner.hasEnded() {
			owner.run()
		}
		other.do("fleet", "move", way, "--to", owner.name)
		if res := undo(other, way); !res.Success {
			t.Errorf("%s: undo at the node of the change: %s", way, res)
		}
		if b, err := os.ReadFile(file(way)); err != nil || string(b) != way+" first\n" {
			t.Errorf("%s: after undo, the file is %q %v", way, b, err)
		}
	}
	write(f.nodes["one"], "new", "new first\n")
	if res := undo(f.nodes["two"], "new"); !res.Success {
		t.Errorf("undo of a session that never moved: %s", res)
	}
	res, err := f.nodes["one"].call(t.Context(), fleetCall{Command: "true", Session: "new", Branch: "b"})
	hosttest.Must(t, err)
	if res.Success || !strings.Contains(res.String(), "have no branches") || !strings.Contains(res.String(), "name the directory") {
		t.Errorf("a branch: %s", res)
	}
}
