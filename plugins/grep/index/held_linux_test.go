package index

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/freshness"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heldTree makes an index of a tree that is compared, and has it hold its directories. interrupt
// is called when the index reads an ignore file that is a link.
func heldTree(t *testing.T, interrupt func(*Set), names ...string) (x *Index, s *Set, root string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range names {
		must(t, os.MkdirAll(filepath.Join(root, name), 0o777))
	}
	time.Sleep(2 * time.Duration(freshness.LocalSlack)) // younger ones are not held
	handle, err := os.Open(root)                        // #nosec G304 -- the test's
	must(t, err)
	s = NewSet(Options{Memory: 1 << 20, Freshness: ByStat})
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
	if x.held() != len(names)+1 {
		t.Fatalf("%d directories are held open, not %d", x.held(), len(names)+1)
	}
	return x, s, root
}

// TestInterruptedIsReleased ends an index while a directory with others in it is listed again:
// none of them stays open, and others may be held instead.
func TestInterruptedIsReleased(t *testing.T) {
	x, s, root := heldTree(t, func(s *Set) { s.ending.Do(func() { close(s.stop) }) }, "a", "b", "c")
	before, left := openFiles(t), s.open.left.Load()
	must(t, os.Symlink("nowhere", filepath.Join(root, ".ignore")))
	if err := x.sync(root, nil, false); err == nil {
		t.Fatal("it was not interrupted")
	}
	x.close()
	if n := before - openFiles(t); n != 6 || s.open.left.Load() != left+4 { // the directories, the root's handle, the mounts
		t.Errorf("%d files were closed, and %d may be held again", n, s.open.left.Load()-left)
	}
}

// openFiles counts the open files of the process.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

// TestDescriptorsAreBounded holds as many directories as may be, and compares the others all the same.
func TestDescriptorsAreBounded(t *testing.T) {
	x, s, root := heldTree(t, func(*Set) {}, "a", "b", "c")
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
	must(t, os.RemoveAll(filepath.Join(root, "a")))
	must(t, x.sync(root, nil, false))
	if n := x.held(); int64(n)+s.open.left.Load() != 2 {
		t.Errorf("%d directories are held open, %d more may be", n, s.open.left.Load())
	}
	x.close()
	if s.open.left.Load() != 2 {
		t.Errorf("%d may be held in the end", s.open.left.Load())
	}
}
