package branch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/checkpoint"
)

// changeLayer makes several changes to the layer of [begun]. Tests call it after the first checkpoint.
func changeLayer(t *testing.T, b *Branch) {
	t.Helper()
	err := errors.Join(os.RemoveAll(filepath.Join(b.Layer(), "turn")), os.Remove(filepath.Join(b.Layer(), "gone")), os.Chmod(filepath.Join(b.Layer(), "deep"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	files(t, b.Layer(), map[string]string{"edit": "again", "turn": "a file", "fresh/x": "1", "gone": "back"})
}

// TestUndoKilledAtEveryStep kills a process at each step of a checkpoint and of an undo. Afterwards, the layer must be
// either as before or as after the operation, and the list of checkpoints must match.
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
			release, err := s.exclusive(b) // take the branch as the next process does
			if err != nil {
				t.Fatalf("%s, killed at step %d: %v", role, step, err)
			}
			release()
			now := snapshot(t, b.Layer())
			undone := maps.Equal(now, first)
			if both[undone]++; !undone {
				differ(t, fmt.Sprintf("%s, killed at step %d", role, step), now, second)
			}
			to, calls, err := b.Undoable("", 1, CheckpointRules{})
			if err != nil || undone != (to == nil) {
				t.Fatalf("%s, killed at step %d: undone %t, and %v can be undone (%v)", role, step, undone, calls, err)
			}
			if undone {
				continue
			}
			if _, err := s.Undo(b, 1, CheckpointRules{}); err != nil {
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

// TestCheckpointsAreBounded makes more checkpoints of a changing layer than are kept. The oldest checkpoints must be
// removed, with all contents that no other checkpoint uses. The remaining checkpoints can be restored.
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
		entries, err := b.saves().Manifest(c.Number)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			used[e.Object] = true
		}
	}
	delete(used, "")
	stored, size := objectsOf(t, b), int64(0)
	if len(stored) != len(used) {
		t.Errorf("%d contents are stored, and %d are used", len(stored), len(used))
	}
	for _, path := range stored {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if got := all[len(all)-1].Stored; got != size || size == 0 {
		t.Errorf("the record has %d bytes, and %d are stored", got, size)
	}
	if _, err := s.Undo(b, all[0].Number, rules); err != nil {
		t.Fatal(err)
	}
	differ(t, "restored", snapshot(t, b.Layer()), want)

	// A content that exceeds the limit is not stored, and the existing checkpoints remain.
	files(t, b.Layer(), map[string]string{"big": string(make([]byte, 5000))})
	err = s.Before(b, "s", "big", "", CheckpointRules{Bytes: 4000})
	if room := (*NoRoomError)(nil); !errors.As(err, &room) {
		t.Errorf("%v", err)
	}
	if now, err := b.Checkpoints(); err != nil || len(now) != 4 {
		t.Errorf("%+v %v", now, err)
	}
}

// TestCheckpointWithoutChanges makes two checkpoints of the same layer. The second call must not add a checkpoint, but
// only rename the first one.
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
	if _, calls, err := b.Undoable("", 1, CheckpointRules{}); err != nil || len(calls) != 0 {
		t.Errorf("%+v can be undone, %v", calls, err)
	}
	if _, err := s.Restore(b, 1, CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	var x, y unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Join(b.Layer(), "edit"), &x), unix.Stat(filepath.Join(b.Layer(), "name"), &y)); err != nil || x.Ino != y.Ino {
		t.Errorf("two names of a file are two files: %v", err)
	}
}

// TestTornLayer simulates a crash of the machine while a branch was mounted. Files of the layer can then be incomplete,
// so every use of the layer is refused, except showing its changes. After Accept, the branch works again.
func TestTornLayer(t *testing.T) {
	s, b, after, before := begun(t)
	if _, err := s.Checkpoint(b, "", CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	over, err := s.Preview("", b.Base, PreviewPrefix+"1", b, false, Backend{})
	if err != nil {
		t.Fatal(err)
	}
	b.Boot = "an earlier boot"
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	mounts := &Mounts{Store: s, Launcher: func() (string, error) { return "/nonexistent", nil }}
	for what, use := range map[string]func() error{
		"apply":            func() error { _, err := s.Apply(b, Selection{}); return err },
		"checkpoint":       func() error { _, err := s.Checkpoint(b, "", CheckpointRules{}); return err },
		"call":             func() error { return s.Before(b, "s", "call", "", CheckpointRules{}) },
		"restore":          func() error { _, err := s.Restore(b, 1, CheckpointRules{}); return err },
		"preview":          func() error { _, err := s.Preview("", b.Base, PreviewPrefix+"2", b, false, Backend{}); return err },
		"accepted preview": func() error { _, err := s.Apply(over, Selection{}); return err },
		"mount":            func() error { _, _, err := mounts.Acquire(b, "s"); return err },
	} {
		var torn *IncompleteError
		if err := use(); !errors.As(err, &torn) || torn.Name != "b" || !strings.Contains(err.Error(), "the machine stopped while the branch b was in use") {
			t.Errorf("%s of a torn layer: %v", what, err)
		}
	}
	differ(t, "refused", snapshot(t, b.Base), before)
	if changes, err := b.Changes(); err != nil || len(changes) == 0 {
		t.Errorf("the changes are %v, %v", changes, err)
	}
	if err := s.Accept(b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Checkpoint(b, "", CheckpointRules{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Apply(b, Selection{}); err != nil {
		t.Error(err)
	}
	differ(t, "accepted", snapshot(t, b.Base), after)
}

// objectsOf returns the paths of the contents that the checkpoints of a branch store.
func objectsOf(t *testing.T, b *Branch) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.dir, checkpoint.Dir, "objects", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestPreviewLeavesNothing checks that the next use of a branch removes the copy that a killed Preview left.
func TestPreviewLeavesNothing(t *testing.T) {
	s, b, _, _ := begun(t)
	if _, err := s.Checkpoint(b, "", CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	files(t, b.Layer(), map[string]string{"more": "m"})
	left := filepath.Join(b.dir, ".preview-1")
	files(t, left, map[string]string{"upper/x": "x"})
	files(t, filepath.Join(b.dir, ".preview-2"), map[string]string{"upper/x": "x"}) // another process makes it
	if old := time.Now().Add(-2 * time.Hour); os.Chtimes(left, old, old) != nil {
		t.Fatal("the time cannot be set")
	}
	if changes, _, err := b.Preview(1, CheckpointRules{}, 1000); err != nil || len(changes) != 1 {
		t.Errorf("a restore would make %v (%v)", changes, err)
	}
	if _, err := s.Checkpoint(b, "", CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(b.dir, ".preview-*")); err != nil || !slices.Equal(names, []string{filepath.Join(b.dir, ".preview-2")}) {
		t.Errorf("%q are left (%v), want the young one", names, err)
	}
}
