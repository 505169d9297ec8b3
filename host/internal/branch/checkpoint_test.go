package branch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// changeLayer changes the layer of [begun] after its first checkpoint.
func changeLayer(t *testing.T, b *Branch) {
	t.Helper()
	err := errors.Join(os.RemoveAll(filepath.Join(b.Layer(), "turn")), os.Remove(filepath.Join(b.Layer(), "gone")), os.Chmod(filepath.Join(b.Layer(), "deep"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	files(t, b.Layer(), map[string]string{"edit": "again", "turn": "a file", "fresh/x": "1", "gone": "back"})
}

// TestUndoKilledAtEveryStep kills a process at each step of a checkpoint and of an undo. The branch is then as before or as
// after, and its checkpoints agree.
func TestUndoKilledAtEveryStep(t *testing.T) {
	for _, role := range []string{"checkpoint", "undo"} {
		both := map[bool]int{}
		for step, done := 1, false; !done; step++ {
			s, b, _, _ := begun(t)
			first := snapshot(t, b.Layer())
			if err := s.Before(b, "s", "first", "one", CheckpointRules{}); err != nil {
				t.Fatal(err)
			}
			changeLayer(t, b)
			second := snapshot(t, b.Layer())
			done = !killAtStep(t, s, b.Base, role, step)
			release, err := s.exclusive(b) // as the next process does
			if err != nil {
				t.Fatalf("%s, killed at step %d: %v", role, step, err)
			}
			release()
			now := snapshot(t, b.Layer())
			undone := maps.Equal(now, first)
			if both[undone]++; !undone {
				differ(t, fmt.Sprintf("%s, killed at step %d", role, step), now, second)
			}
			to, calls, err := b.Undoable("", 1)
			if err != nil || undone != (to == nil) {
				t.Fatalf("%s, killed at step %d: undone %t, and %v can be undone (%v)", role, step, undone, calls, err)
			}
			if undone {
				continue
			}
			if _, _, err := s.Undo(b, 1, CheckpointRules{}); err != nil {
				t.Fatalf("%s, killed at step %d: %v", role, step, err)
			}
			differ(t, fmt.Sprintf("undone after %s was killed at step %d", role, step), snapshot(t, b.Layer()), first)
			if left, _ := filepath.Glob(filepath.Join(b.dir, "*", ".new*")); len(left) > 0 {
				t.Errorf("%s, killed at step %d: %q are left", role, step, left)
			}
		}
		if role == "undo" && (both[true] < 2 || both[false] < 5) {
			t.Errorf("of the kills, %d left the branch undone and %d did not", both[true], both[false])
		}
	}
}

// TestCheckpointsAreBounded makes checkpoints of a layer that changes. Old ones and what only they have are removed, and the
// others can be restored.
func TestCheckpointsAreBounded(t *testing.T) {
	s, b, _, _ := begun(t)
	rules := CheckpointRules{Keep: 3}
	var want map[string]string
	for i := range 8 {
		files(t, b.Layer(), map[string]string{"edit": fmt.Sprint("state ", i), fmt.Sprint("f", i): "x"})
		if i == 5 {
			want = snapshot(t, b.Layer())
		}
		if err := s.Before(b, "s", fmt.Sprint("call", i), "", rules); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Checkpoints()
	if err != nil || len(all) != 3 || all[0].Call != "call5" {
		t.Fatalf("%+v %v", all, err)
	}
	used := make(map[string]bool)
	for _, c := range all {
		entries, err := b.manifest(c.Number)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			used[e.Object] = true
		}
	}
	delete(used, "")
	stored, err := os.ReadDir(filepath.Join(b.dir, checkpointsDir, objectsDir))
	if err != nil || len(stored) != len(used) {
		t.Errorf("%d contents are stored, and %d are used (%v)", len(stored), len(used), err)
	}
	if _, _, err := s.Undo(b, all[0].Number, rules); err != nil {
		t.Fatal(err)
	}
	differ(t, "restored", snapshot(t, b.Layer()), want)

	// What does not fit is not stored, and the others stay.
	files(t, b.Layer(), map[string]string{"big": string(make([]byte, 5000))})
	err = s.Before(b, "s", "big", "", CheckpointRules{Bytes: 4000})
	if room := (*NoRoomError)(nil); !errors.As(err, &room) {
		t.Errorf("%v", err)
	}
	if now, err := b.Checkpoints(); err != nil || len(now) != 4 {
		t.Errorf("%+v %v", now, err)
	}
}

// TestCheckpointWithoutChanges makes two checkpoints of the same layer. The second one only renames the first.
func TestCheckpointWithoutChanges(t *testing.T) {
	s, b, _, _ := begun(t)
	if err := unix.Link(filepath.Join(b.Layer(), "edit"), filepath.Join(b.Layer(), "name")); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"a", "b"} {
		if err := s.Before(b, "s", call, "", CheckpointRules{}); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := b.Checkpoints(); err != nil || len(all) != 1 || all[0].Call != "b" {
		t.Errorf("%+v %v", all, err)
	}
	if _, calls, err := b.Undoable("", 1); err != nil || len(calls) != 0 {
		t.Errorf("%+v can be undone, %v", calls, err)
	}
	if _, _, err := s.Restore(b, 1, CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	var x, y unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Join(b.Layer(), "edit"), &x), unix.Stat(filepath.Join(b.Layer(), "name"), &y)); err != nil || x.Ino != y.Ino {
		t.Errorf("two names of a file are two files: %v", err)
	}
}
