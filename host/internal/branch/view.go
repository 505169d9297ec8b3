package branch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// view is a tree as its tools see it: a base, with a layer over it. An empty layer means the base alone. It reads both
// directories itself, so the tree need not be mounted.
type view struct{ base, layer string }

// find returns where the content of a path is, or false if the tree does not have the path.
func (v view) find(path string) (at string, ok bool) {
	hidden := false // whether the layer hides the base here
	below := v.layer
	for i, name := range strings.Split(path, "/") {
		if below == "" {
			break
		}
		below = filepath.Join(below, name)
		var st unix.Stat_t
		if unix.Lstat(below, &st) != nil {
			below = "" // the rest is only in the base
			continue
		}
		last := i == strings.Count(path, "/")
		switch {
		case isWhiteout(&st):
			return "", false
		case last:
			return below, true
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return "", false
		}
		hidden = hidden || v.hides(below)
	}
	if hidden {
		return "", false
	}
	at = filepath.Join(v.base, path)
	var st unix.Stat_t
	return at, unix.Lstat(at, &st) == nil
}

// hides reports whether a directory of the layer hides the directory of the base.
func (v view) hides(dir string) bool {
	if isOpaque(dir) {
		return true
	}
	rel, err := filepath.Rel(v.layer, dir)
	if err != nil {
		return true
	}
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(v.base, rel), &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// names returns the names in a directory of the tree.
func (v view) names(dir string) (out []string) {
	layer := map[string]bool{}
	if v.layer != "" {
		at := filepath.Join(v.layer, dir)
		for _, name := range entriesOf(at) {
			var st unix.Stat_t
			layer[name] = unix.Lstat(filepath.Join(at, name), &st) == nil && !isWhiteout(&st)
			if layer[name] {
				out = append(out, name)
			}
		}
	}
	if at, ok := v.find(dir); ok && !v.covered(dir) {
		if strings.HasPrefix(at, v.layer) && v.layer != "" {
			at = filepath.Join(v.base, dir)
		}
		for _, name := range entriesOf(at) {
			if _, known := layer[name]; !known {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// covered reports whether the layer hides the base at a directory, or at a directory above it.
func (v view) covered(dir string) bool {
	if v.layer == "" {
		return false
	}
	for at := filepath.Join(v.layer, dir); len(at) > len(v.layer); at = filepath.Dir(at) {
		var st unix.Stat_t
		if unix.Lstat(at, &st) == nil && (st.Mode&unix.S_IFMT != unix.S_IFDIR || v.hides(at)) {
			return true
		}
	}
	return false
}

func entriesOf(dir string) (out []string) {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close() //nolint:errcheck // only read
	out, _ = d.Readdirnames(-1)
	return out
}

// compare lists the changes between two trees over one base. It looks only at what one of the layers has.
func compare(before, after view) ([]Change, error) {
	c := comparison{before: before, after: after}
	err := c.directory(".")
	slices.SortFunc(c.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c.out, err
}

type comparison struct {
	before, after view
	out           []Change
}

// directory compares the entries of a directory that is in at least one of the layers.
func (c *comparison) directory(dir string) error {
	var names []string
	for _, v := range []view{c.before, c.after} {
		if v.layer != "" {
			names = append(names, entriesOf(filepath.Join(v.layer, dir))...)
		}
		if v.covered(dir) { // the other tree can have entries of the base
			names = append(append(names, c.before.names(dir)...), c.after.names(dir)...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := c.entry(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) entry(path string) error {
	var old, now unix.Stat_t
	before, there := c.before.find(path)
	after, here := c.after.find(path)
	if before == after && there == here {
		return nil
	}
	err := error(nil)
	if there {
		err = unix.Lstat(before, &old)
	}
	if here {
		err = errors.Join(err, unix.Lstat(after, &now))
	}
	if err != nil || !there && !here {
		return err
	}
	out := Change{Path: path}
	if there {
		out.Was, out.OldMode, out.OldSize = typeOf(uint32(old.Mode)), uint32(old.Mode)&0o7777, old.Size //nolint:unconvert // not all systems have 32 bits here
	}
	if here {
		out.Is, out.Mode, out.Size = typeOf(uint32(now.Mode)), uint32(now.Mode)&0o7777, now.Size //nolint:unconvert // as above
	}
	out.Never = never(&out)
	switch {
	case !there:
		out.Op = OpCreate
	case !here:
		out.Op = OpDelete
	case out.Was != out.Is:
		out.Op = OpReplace
	case out.Is == "directory":
		if old.Mode != now.Mode || !sameOwner(&old, &now) || !equalAttributes(before, after) {
			out.Op = OpMetadata
			c.out = append(c.out, out)
		}
		return c.directory(path)
	default:
		equal, err := same(before, after, &old, &now)
		if err != nil || equal {
			return err
		}
		out.Op = OpModify
	}
	if out.Is == "directory" {
		out.Entries = c.after.count(path)
	} else if out.Was == "directory" {
		out.Entries = c.before.count(path)
	}
	c.out = append(c.out, out)
	return nil
}

// count returns the number of entries below a directory.
func (v view) count(dir string) (n int) {
	for _, name := range v.names(dir) {
		n++
		path := filepath.Join(dir, name)
		var st unix.Stat_t
		if at, ok := v.find(path); ok && unix.Lstat(at, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			n += v.count(path)
		}
	}
	return n
}
