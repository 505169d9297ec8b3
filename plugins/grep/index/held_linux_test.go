package index

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/sdk/tooltest"
)

// heldTree returns an index that holds all directories of a new tree open. The function "interrupt" is called when the
// index reads an ignore file that is a symbolic link.
func heldTree(t *testing.T, o Options, interrupt func(*Set), names ...string) (x *Index, s *Set, root string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range names {
		must(t, os.MkdirAll(filepath.Join(root, name), 0o777))
	}
	time.Sleep(2 * time.Duration(freshness.LocalSlack)) // wait, because an index does not hold young directories open
	handle, err := os.Open(root)                        // #nosec G304 -- a path of the test
	must(t, err)
	o.Memory = 1 << 20
	s = NewSet(o)
	t.Cleanup(s.Close)
	var found atomic.Int64
	read := func(path string) ([]byte, error) {
		if filepath.Dir(path) == root {
			interrupt(s)
		}
		return nil, os.ErrNotExist
	}
	x, err = build(handle, root, read, s, &found, func() {})
	must(t, err)
	must(t, x.sync(root, nil, false))
	if x.held() != len(x.byStat) {
		t.Fatalf("%d of %d directories are held open", x.held(), len(x.byStat))
	}
	return x, s, root
}

// TestInterruptedIsReleased closes an index while it relists a directory with subdirectories. No directory must stay
// open. Afterwards, other indexes must be able to hold the same number of directories open.
func TestInterruptedIsReleased(t *testing.T) {
	x, s, root := heldTree(t, Options{Freshness: ByStat}, func(s *Set) { s.ending.Do(func() { close(s.stop) }) }, "a", "b", "c")
	before, left := openFiles(t), s.open.left.Load()
	must(t, os.Symlink("nowhere", filepath.Join(root, ".ignore")))
	if err := x.sync(root, nil, false); err == nil {
		t.Fatal("it was not interrupted")
	}
	x.close()
	if n := before - openFiles(t); n != 6 || s.open.left.Load() != left+4 { // four directories, the handle of the root, and the file that monitors the mounts
		t.Errorf("%d files were closed, and %d may be held again", n, s.open.left.Load()-left)
	}
}

// openFiles returns the number of open files of the process.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

// TestDescriptorsAreBounded checks that an index does not exceed the limit of directories held open. It must still find
// changes in the directories that it does not hold open.
func TestDescriptorsAreBounded(t *testing.T) {
	x, s, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a", "b", "c")
	x.releaseAll()
	s.open.left.Store(2)
	for range 3 {
		must(t, x.sync(root, nil, false))
		if x.held() != 2 || s.open.left.Load() != 0 {
			t.Fatalf("%d directories are held open, %d more may be", x.held(), s.open.left.Load())
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.WriteFile(filepath.Join(root, name, "f"), nil, 0o600))
		must(t, x.sync(root, nil, false))
		if d := x.lookup(filepath.Join(root, name)); d == nil || len(d.entries) != 1 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.RemoveAll(filepath.Join(root, name)))
	}
	must(t, x.sync(root, nil, false))
	if n := x.held(); int64(n)+s.open.left.Load() != 2 {
		t.Errorf("%d directories are held open, %d more may be", n, s.open.left.Load())
	}
	x.close()
	if s.open.left.Load() != 2 {
		t.Errorf("%d may be held in the end", s.open.left.Load())
	}
}

// TestWatchedIsNotHeld checks that a directory is closed when it gets a watch.
func TestWatchedIsNotHeld(t *testing.T) {
	x, s, root := heldTree(t, Options{Watches: 1}, func(*Set) {}, "a", "b")
	before, left := openFiles(t), s.open.left.Load()
	x.mostWatches = 2
	must(t, os.WriteFile(filepath.Join(root, "a", "f"), nil, 0o600))
	must(t, x.sync(root, nil, false))
	if d := x.lookup(filepath.Join(root, "a")); d.watch == 0 || d.held != nil || len(d.entries) != 1 {
		t.Errorf("%+v", d)
	}
	if n := before - openFiles(t); n != 1 || s.open.left.Load() != left+1 {
		t.Errorf("%d files were closed, and %d more may be held", n, s.open.left.Load()-left)
	}
	x.close()
	if s.open.left.Load() != left+2 {
		t.Errorf("%d more may be held in the end", s.open.left.Load()-left)
	}
}

// TestRemovedIsNotHeld checks that directories are closed when they are removed.
func TestRemovedIsNotHeld(t *testing.T) {
	x, s, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a/b", "c")
	before, left := openFiles(t), s.open.left.Load()
	must(t, os.RemoveAll(filepath.Join(root, "a")))
	must(t, x.sync(root, nil, false))
	// The root is not held open either, because it changed a short time ago.
	if n := before - openFiles(t); n != 3 || s.open.left.Load() != left+3 || x.held() != 1 {
		t.Errorf("%d files were closed, %d more may be held, and %d are", n, s.open.left.Load()-left, x.held())
	}
	x.close()
}

// TestWatchEnds ends the watch of a directory without another event. The index must still find a change in the
// directory.
func TestWatchEnds(t *testing.T) {
	x, _, root := heldTree(t, Options{}, func(*Set) {}, "a")
	a := filepath.Join(root, "a")
	x.watcher.Remove(x.lookup(a).watch)
	must(t, os.WriteFile(filepath.Join(a, "f"), nil, 0o600))
	must(t, x.sync(root, nil, false))
	if n := len(x.lookup(a).entries); n != 1 {
		t.Errorf("%d entries are known", n)
	}
	x.close()
}

// TestOtherMountsAreNotHeld mounts a file system on a directory of the tree. The index must find the mounted
// directories but not hold them open. Otherwise they could not be unmounted.
func TestOtherMountsAreNotHeld(t *testing.T) {
	from := t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "in"), 0o777))
	x, _, root := heldTree(t, Options{Freshness: ByStat}, func(*Set) {}, "a", "b")
	at := filepath.Join(root, "a")
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		x.close()
		tooltest.InUserNamespace(t, err)
		return
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	for range 3 {
		must(t, x.sync(root, nil, false))
	}
	if d := x.lookup(filepath.Join(at, "in")); d == nil || d.held != nil || x.held() != 2 {
		t.Errorf("%+v; %d directories are held, not 2", d, x.held())
	}
	must(t, unix.Unmount(at, 0))
	must(t, x.sync(root, nil, false))
	if d := x.lookup(at); d == nil || len(d.entries) != 0 {
		t.Errorf("after that there is %+v", d)
	}
	x.close()
}
