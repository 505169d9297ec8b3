package workcopy

import (
	"errors"
	"fmt"
	"os"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/internal/killpoint"
	"toolhost.dev/branch/internal/mirror"
)

// Gather updates the layer with the changes that sessions made in the copy.
func (c *Copy) Gather() error {
	if c == nil {
		return nil
	}
	do := (*mirror.Mirror).Gather
	if c.stale() {
		do = (*mirror.Mirror).Load // the next process that uses the branch updates the copy
	}
	if err := c.with(do); err != nil {
		return fmt.Errorf("the changes of the branch %s cannot be collected from its copy %s: %w", c.Name, c.Tree(), err)
	}
	return nil
}

func (c *Copy) stale() bool {
	_, err := os.Lstat(c.path(staleFile))
	return err == nil
}

// Outdate records that the copy must be updated from the layer and the base. It must be called before the layer or the
// base is changed.
func (c *Copy) Outdate() error {
	if c == nil {
		return nil
	}
	return durable.Replace(c.path(staleFile), nil)
}

// Renew updates the copy if it is stale. The copy then equals the base with the layer over it.
func (c *Copy) Renew() error {
	if c == nil || !c.stale() {
		return nil
	}
	if err := c.with((*mirror.Mirror).Project); err != nil {
		return fmt.Errorf("the copy of the branch %s, %s, cannot be brought up to date: %w. The next command in the branch tries again", c.Name, c.Tree(), err)
	}
	killpoint.Pass()
	return os.Remove(c.path(staleFile))
}

// Follow copies changes of the base into the copy. If all is true, it looks for changes at all paths.
func (c *Copy) Follow(paths []string, all bool) error {
	if !all && len(paths) == 0 {
		return nil
	}
	if all {
		paths = nil
	}
	err := c.with(func(m *mirror.Mirror) error { return m.Follow(paths) })
	if err != nil {
		return fmt.Errorf("the changes of the workspace cannot be copied to the branch %s: %w", c.Name, err)
	}
	return nil
}

// RenewVersions records that the branch has seen the current versions of the base at the given paths, and the metadata
// of the given directories.
func (c *Copy) RenewVersions(paths, dirs []string) error {
	return c.with(func(m *mirror.Mirror) error { return m.Renew(paths, dirs) })
}

// Inherit copies the changes of another copy into the layer of this one, which belongs to a preview of its branch.
func (c *Copy) Inherit(of *Copy) error {
	if c == nil {
		return nil
	}
	if err := c.Outdate(); err != nil {
		return err
	}
	err := of.with(func(from *mirror.Mirror) error {
		return c.with(func(m *mirror.Mirror) error { return m.Inherit(from) })
	})
	return errors.Join(err, c.Renew())
}

// Round identifies the state of the versions that the branch has seen, for [Copy.Doubt]. It is 0 for a nil Copy.
func (c *Copy) Round() uint64 {
	if c == nil {
		return 0
	}
	return c.open().Round()
}

// Doubt declares that the branch has not seen the versions that it saw after a round; see [mirror.Mirror.Doubt].
func (c *Copy) Doubt(round uint64) error {
	return c.with(func(m *mirror.Mirror) error { return m.Doubt(round) })
}

// Measure returns the size of all differences between the copy and the base in bytes, and their number. It calls the
// function "visit" for each of them.
func (c *Copy) Measure(visit func(rel string, dir bool)) (size int64, files int) {
	_ = c.with(func(m *mirror.Mirror) error { // ignore the error: the next call that collects the changes returns it
		all, err := m.Differences()
		for _, d := range all {
			files++
			size += d.Size
			visit(d.Path, d.IsDir())
		}
		return err
	})
	return size, files
}

// Had reports whether the copy contains a version of a path from the base. Like the other methods of
// [change.Versions], it needs a loaded mirror, as after Gather.
func (c *Copy) Had(path string) bool { return c.mirror.Had(path) }

// Touched reports whether the base changed a path after the path was copied.
func (c *Copy) Touched(path string) bool { return c.mirror.Touched(path) }

// TouchedBelow returns a path in a directory that the base changed after it was copied, or "".
func (c *Copy) TouchedBelow(dir string) string { return c.mirror.TouchedBelow(dir) }

// LeavesOut reports whether a path of the base is never copied.
func (c *Copy) LeavesOut(path string, dir bool) bool {
	return c.mirror.Ignored != nil && c.mirror.Ignored(path, dir)
}
