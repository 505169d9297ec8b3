package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"toolhost.dev/sdk/tool"
)

// separate is the host of a plugin that has a process for each set of roots.
type separate struct{ Alone }

func confined(spec Spec) *Plugin {
	spec.Host = separate{}
	return New(Options{}).Add(spec)
}

func TestWithin(t *testing.T) {
	dir := t.TempDir()
	mk := func(name string) []tool.Root {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return []tool.Root{{Path: path, Writable: true}}
	}
	own := mk("own")
	p := confined(Spec{Name: "p", Roots: own, Place: Place{StateDir: filepath.Join(dir, "state")}})
	within := func(roots []tool.Root) *Plugin {
		q, done := p.sibling("", roots)
		done()
		return q
	}
	other := within(mk("other"))
	if within(own) != p || within(nil) != p || other == p || within(mk("other")) != other {
		t.Error("roots do not lead to their process")
	}
	if within([]tool.Root{{Path: own[0].Path}}) == p {
		t.Error("a root that may only be read leads to the process that writes it")
	}
	if roots := slices.Concat(own, mk("state/output")); within(roots) != p {
		t.Error("a root in the plugin's own state directory takes another process")
	}
	// Check that a recreated directory counts as a different directory. Keep the first directory open, so that the new
	// one gets a different inode number.
	held, err := os.Open(own[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Remove(own[0].Path); err != nil {
		t.Fatal(err)
	}
	if within(mk("own")) == p {
		t.Error("a directory that was made again leads to the process confined to the old one")
	}
	busy, done := p.sibling("", mk("busy"))
	for i := range 2 * maxSiblings {
		within(mk(fmt.Sprint("w", i)))
	}
	p.siblings.ending.Wait()
	if n := len(p.siblings.by); n != maxSiblings {
		t.Errorf("%d processes are kept", n)
	}
	if again, done := p.sibling("", mk("busy")); again != busy {
		t.Error("one that is in use was taken out")
	} else {
		done()
	}
	done()
	if !other.closed {
		t.Error("one that was taken out is not closed")
	}
	p.close(0)
	if !busy.closed {
		t.Error("closing the plugin leaves others open")
	}
}

// TestWithinOwners checks that an owner with many workspaces does not end the processes of another owner.
func TestWithinOwners(t *testing.T) {
	dir := t.TempDir()
	p := confined(Spec{Name: "p", Roots: []tool.Root{{Path: dir}}})
	within := func(owner string, n int) *Plugin {
		q, done := p.sibling(owner, []tool.Root{{Path: filepath.Join(dir, owner, fmt.Sprint(n))}})
		done()
		return q
	}
	alice := within("alice", 0)
	for i := range 2 * maxSiblings {
		within("bob", i)
	}
	p.siblings.ending.Wait()
	if within("alice", 0) != alice || alice.closed {
		t.Error("bob ended the process of alice")
	}
	if n := len(p.siblings.by); n != maxSiblings+1 {
		t.Errorf("%d processes are kept", n)
	}
	for i := range 2 * maxOwned { // each owner has one workspace
		within(fmt.Sprint("owner", i), 0)
	}
	p.siblings.ending.Wait()
	if n := len(p.siblings.by); n != maxOwned {
		t.Errorf("%d processes of all owners are kept", n)
	}
	p.close(0)
}

func TestWithinUnconfined(t *testing.T) {
	p := New(Options{}).Add(Spec{Name: "p", Roots: []tool.Root{{Path: "/a"}}})
	if q, _ := p.sibling("", []tool.Root{{Path: "/b"}}); q != p {
		t.Error("a plugin that is not confined has several processes")
	}
}
