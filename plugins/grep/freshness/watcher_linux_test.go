package freshness

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWatcher()
	must(t, err)
	defer func() { must(t, w.Close()) }()
	f, err := os.Open(dir)
	must(t, err)
	defer func() { _ = f.Close() }()
	id, err := w.Add(f)
	must(t, err)
	if again, err := w.Add(f); err != nil || again != id {
		t.Errorf("the same directory is watched as %d and %d: %v", id, again, err)
	}
	path := filepath.Join(dir, "name")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	var entries, written, closed bool
	lost, err := w.Drain(func(e Event) {
		if e.ID != id || e.Name != "name" {
			t.Errorf("%+v", e)
		}
		entries, written, closed = entries || e.Entries, written || e.Written, closed || e.Closed
	})
	if lost || err != nil || !entries || !written || !closed {
		t.Errorf("lost %v, %v: entries %v, written %v, closed %v", lost, err, entries, written, closed)
	}
	if _, err = w.Drain(func(e Event) { t.Errorf("again: %+v", e) }); err != nil {
		t.Error(err)
	}
	w.Remove(id)
	ended := false
	_, err = w.Drain(func(e Event) { ended = ended || e.Ended })
	if err != nil || !ended {
		t.Errorf("removed: %v, %v", ended, err)
	}
}

// TestMounts checks that a mount below the root is reported and a mount elsewhere is not. It needs permission to mount.
func TestMounts(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "root", "a b"), filepath.Join(dir, "other")
	must(t, os.MkdirAll(in, 0o700))
	must(t, os.MkdirAll(out, 0o700))
	w, err := NewMounts(filepath.Join(dir, "root"))
	must(t, err)
	defer func() { must(t, w.Close()) }()
	if w.Changed() {
		t.Error("nothing was mounted")
	}
	if err := unix.Mount("tmpfs", out, "tmpfs", 0, "size=4k"); err != nil {
		tooltest.InUserNamespace(t, err)
		return
	}
	t.Cleanup(func() { _ = unix.Unmount(out, 0) })
	if w.Changed() {
		t.Error("what is mounted elsewhere does not matter")
	}
	must(t, unix.Mount("tmpfs", in, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { _ = unix.Unmount(in, 0) })
	if !w.Changed() || w.Changed() {
		t.Error("a mount beneath the root should be noticed, once")
	}
	must(t, unix.Unmount(in, 0))
	if !w.Changed() {
		t.Error("an end of a mount should be noticed")
	}
}

func TestSettled(t *testing.T) {
	s := Stamp{Change: 1000}
	if s.Settled(1000, 0) || !s.Settled(1001, 0) || s.Settled(1001, Slack(10)) {
		t.Error("a stamp as young as the clock is coarse is not settled")
	}
}
