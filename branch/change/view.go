package change

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitignore"
)

// View is the tree that tools see: a base with a layer over it. Without a layer, it is the base alone. View reads both
// directories itself, so the tree need not be mounted.
type View struct{ Base, Upper string }

// Find returns the path at which the content of a path of the tree is stored. It returns false if the tree does not
// contain the path.
func (v View) Find(path string) (at string, ok bool) {
	hidden := false // whether the layer hides the base here
	below := v.Upper
	for i, name := range strings.Split(path, "/") {
		if below == "" {
			break
		}
		below = filepath.Join(below, name)
		var st unix.Stat_t
		if unix.Lstat(below, &st) != nil {
			below = "" // the remaining elements exist only in the base
			continue
		}
		last := i == strings.Count(path, "/")
		switch {
		case filetree.IsWhiteout(&st):
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
	at = filepath.Join(v.Base, path)
	var st unix.Stat_t
	return at, unix.Lstat(at, &st) == nil
}

// hides reports whether a directory of the layer hides the directory of the base.
func (v View) hides(dir string) bool {
	if opaque, err := filetree.IsOpaque(dir); opaque || err != nil {
		return true
	}
	rel, err := filepath.Rel(v.Upper, dir)
	if err != nil {
		return true
	}
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(v.Base, rel), &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// names returns the names in a directory of the tree.
func (v View) names(dir string) (out []string, err error) {
	layer := map[string]bool{}
	if v.Upper != "" {
		at := filepath.Join(v.Upper, dir)
		names, err := filetree.Names(at)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			var st unix.Stat_t
			layer[name] = unix.Lstat(filepath.Join(at, name), &st) == nil && !filetree.IsWhiteout(&st)
			if layer[name] {
				out = append(out, name)
			}
		}
	}
	if at, ok := v.Find(dir); ok && !v.covered(dir) {
		if strings.HasPrefix(at, v.Upper) && v.Upper != "" {
			at = filepath.Join(v.Base, dir)
		}
		names, err := filetree.Names(at)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, known := layer[name]; !known {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// covered reports whether the layer hides the base's entries of a directory, because of a mark or a file at the
// directory or above it.
func (v View) covered(dir string) bool {
	if v.Upper == "" {
		return false
	}
	for at := filepath.Join(v.Upper, dir); len(at) > len(v.Upper); at = filepath.Dir(at) {
		var st unix.Stat_t
		if unix.Lstat(at, &st) == nil && (st.Mode&unix.S_IFMT != unix.S_IFDIR || v.hides(at)) {
			return true
		}
	}
	return false
}

// Ignored returns the files of the tree that git ignores.
func (v View) Ignored() *gitignore.Tree {
	return &gitignore.Tree{Read: func(path string) ([]byte, error) {
		// Few directories contain such a file. Therefore first check whether one of the two trees contains it.
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(v.Upper, path), &st) != nil && unix.Lstat(filepath.Join(v.Base, path), &st) != nil {
			return nil, fs.ErrNotExist
		}
		text, ok := v.Text(path, "file")
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}}
}

// Compare lists the changes between two trees with the same base. It examines only paths that one of the layers
// contains.
func Compare(before, after View) ([]Change, error) {
	c := comparison{before: before, after: after}
	err := c.directory(".")
	slices.SortFunc(c.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c.out, err
}

type comparison struct {
	before, after View
	out           []Change
}

// directory compares the entries of a directory that exists in at least one of the layers.
func (c *comparison) directory(dir string) error {
	var names []string
	for _, v := range []View{c.before, c.after} {
		if v.Upper != "" {
			own, err := filetree.Names(filepath.Join(v.Upper, dir))
			if err != nil {
				return err
			}
			names = append(names, own...)
		}
		if v.covered(dir) { // the other tree can then show entries of the base
			for _, tree := range []View{c.before, c.after} {
				all, err := tree.names(dir)
				if err != nil {
					return err
				}
				names = append(names, all...)
			}
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
	before, there := c.before.Find(path)
	after, here := c.after.Find(path)
	if before == after && there == here {
		return nil
	}
	there, err := exists(before, there, &old)
	here, hereErr := exists(after, here, &now)
	if err = errors.Join(err, hereErr); err != nil || !there && !here {
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
		if old.Mode != now.Mode || !filetree.SameOwner(&old, &now) || !filetree.EqualAttributes(before, after) {
			out.Op = OpMetadata
			c.out = append(c.out, out)
		}
		return c.directory(path)
	default:
		equal, err := filetree.Same(before, after, &old, &now)
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

// exists reads the state of a path that a tree contained. The path can have been removed since then.
func exists(at string, found bool, st *unix.Stat_t) (bool, error) {
	if !found {
		return false, nil
	}
	err := unix.Lstat(at, st)
	if filetree.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return err == nil, err
}

// count returns the number of entries below a directory.
func (v View) count(dir string) (n int) {
	v.walk(dir, func(string, *unix.Stat_t) { n++ })
	return n
}

// walk visits everything below a directory of the tree. It leaves out what cannot be read, because the result is only
// shown.
func (v View) walk(dir string, visit func(path string, st *unix.Stat_t)) {
	names, _ := v.names(dir) // the error is ignored: see above
	for _, name := range names {
		path := filepath.Join(dir, name)
		var st unix.Stat_t
		at, ok := v.Find(path)
		if !ok || unix.Lstat(at, &st) != nil {
			continue
		}
		visit(path, &st)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			v.walk(path, visit)
		}
	}
}
