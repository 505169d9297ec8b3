package index

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/walk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// faultyTree is a directory with one file, together with its index.
type faultyTree struct {
	t    *testing.T
	set  *Set
	tree *Tree
	dir  *os.File
	path string
}

func newFaultyTree(t *testing.T, readRule func(string) ([]byte, error)) *faultyTree {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(path, "f"), []byte("text\n"), 0o600))
	dir, err := os.Open(path)
	must(t, err)
	s := NewSet(Options{Memory: 1 << 20})
	t.Cleanup(func() {
		s.Close()
		_ = dir.Close()
	})
	return &faultyTree{t, s, s.Tree(path, "", func() (*os.File, error) { return os.Open(path) }, readRule), dir, path}
}

// ask simulates a call. It reports whether the call can use an index.
func (f *faultyTree) ask() bool {
	f.t.Helper()
	done := make(chan bool)
	go func() {
		snap := f.tree.Snapshot(walk.Start{Dir: f.dir, Path: f.path, Shown: "."}, walk.Options{}, "")
		if snap != nil {
			snap.Release()
		} else {
			f.tree.Scan()()
		}
		done <- snap != nil
	}()
	select {
	case known := <-done:
		f.set.wait(f.t.Context())
		return known
	case <-time.After(20 * time.Second):
		f.t.Fatal("a call waits for ever")
		return false
	}
}

// refused checks that the index is permanently refused and that the report contains the reason.
func (f *faultyTree) refused(why string) {
	f.t.Helper()
	for range 3 {
		if f.ask() {
			f.t.Error("there is an index")
		}
		if r := f.set.Report().Trees[0]; r.State != Refused || !strings.Contains(r.Why, why) {
			f.t.Errorf("%+v", r)
		}
	}
}

// TestFaultWhileBuilding causes a panic while the index is built. Later calls must work without the index.
func TestFaultWhileBuilding(t *testing.T) {
	f := newFaultyTree(t, func(string) ([]byte, error) { panic("ouch") })
	f.ask()
	f.refused("ouch")
}

// TestFaultLater causes a panic in the goroutine that updates the index, or in the goroutine of a call. Later calls
// must work without the index.
func TestFaultLater(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(x *Index)
		why  string
	}{
		"in a worker":     {func(x *Index) { x.store = nil }, "nil pointer"},
		"while it's held": {func(x *Index) { x.root = &dir{path: x.root.path, entries: make([]entry, 1)} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultyTree(t, os.ReadFile)
			f.ask()
			if !f.ask() {
				t.Fatalf("%+v", f.set.Report())
			}
			x := f.tree.index
			x.mu.Lock()
			c.harm(x)
			x.mu.Unlock()
			must(t, os.WriteFile(filepath.Join(f.path, "f"), []byte("other\n"), 0o600))
			must(t, os.WriteFile(filepath.Join(f.path, "g"), []byte("other\n"), 0o600))
			f.refused(c.why)
		})
	}
}

// TestFaultInAudit causes a panic in an audit. Later calls must work without the index.
func TestFaultInAudit(t *testing.T) {
	f := newFaultyTree(t, os.ReadFile)
	f.ask()
	if !f.ask() {
		t.Fatalf("%+v", f.set.Report())
	}
	f.tree.index.store = nil
	must(t, os.WriteFile(filepath.Join(f.path, "f"), []byte("other\n"), 0o600))
	f.tree.index.audit()
	f.refused("nil pointer")
}
