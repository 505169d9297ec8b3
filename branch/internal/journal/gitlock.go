package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// gitLock is a lock file of git in the base. While the file exists, git changes neither refs nor the index.
type gitLock struct {
	Path  string `json:"path"`
	Inode uint64 `json:"inode"`
}

func lockName(i int) string { return "lock-" + strconv.Itoa(i) }

// LocksFor returns the locks for the steps of an apply.
func (l Log) LocksFor(steps []Step) (out []gitLock) {
	paths := make(map[string]bool)
	for i := range steps {
		s := &steps[i]
		dir, name, ok := strings.Cut("/"+s.Path, "/.git/")
		if s.Drop || !ok {
			continue
		}
		top, _, _ := strings.Cut(name, "/")
		switch dir = strings.TrimPrefix(dir+"/.git/", "/"); top {
		case "refs":
			if s.Is != "directory" && s.Was != "directory" {
				paths[s.Path+".lock"] = true
			}
			paths[dir+"packed-refs.lock"] = true
		case "packed-refs":
			paths[dir+"packed-refs.lock"] = true
		case "HEAD", "index":
		default:
			continue
		}
		paths[dir+"HEAD.lock"], paths[dir+"index.lock"] = true, true
	}
	for path := range paths {
		if filetree.IsDirectory(filepath.Dir(filepath.Join(l.Base, path))) {
			out = append(out, gitLock{Path: path})
		}
	}
	slices.SortFunc(out, func(a, b gitLock) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Lock takes the locks of git. If needed is true, Lock returns an error if another process has a lock. If needed is
// false, Lock skips such a lock, because an apply that an earlier process began must be completed in any case.
func (x *Exchange) Lock(needed bool) error {
	for i, l := range x.j.Locks {
		if x.inode(x.store, lockName(i)) != l.Inode {
			continue // this lock is already taken
		}
		err := filetree.Rename(x.store, lockName(i), x.base, l.Path, filetree.NoReplace)
		if err != nil && needed {
			x.Unlock()
			if errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("nothing was changed, because git works in the workspace: it has the lock %s. Wait until it ends, and repeat the command. If no git runs, remove that file", filepath.Join(x.base.Path, l.Path))
			}
			return fmt.Errorf("the lock %s cannot be taken: %w", l.Path, err)
		}
		killpoint.Pass()
	}
	return nil
}

// Unlock removes the locks that Lock took. No step can follow.
func (x *Exchange) Unlock() {
	x.closeParents()
	for i, l := range x.j.Locks {
		if x.inode(x.base, l.Path) == l.Inode {
			// Ignore the error: git's message names the file, and a person can remove it.
			_ = filetree.Rename(x.base, l.Path, x.store, lockName(i), filetree.NoReplace)
		}
	}
}

// addsObjects reports whether a step adds objects of git. Objects are never removed from the base again. Git does not
// store an object that already exists, so later commits of the workspace can need them.
func (s *Step) addsObjects() bool {
	return s.Op == change.OpCreate && !s.Drop && strings.Contains("/"+s.Path, "/.git/objects/")
}

// shareObjects adds hard links to the objects of a step to the layer. The objects also stay in the base.
func (x *Exchange) shareObjects(path string) error {
	st, err := x.base.Stat(path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // the step was not made
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		names, err := filetree.Names(filepath.Join(x.base.Path, path))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := x.shareObjects(filepath.Join(path, name)); err != nil {
				return err
			}
		}
		return nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil
	}
	if err := x.layer.Parents(path, x.base); err != nil {
		return err
	}
	from, name, err := x.base.Entry(path)
	if err != nil {
		return err
	}
	to, _, err := x.layer.Entry(path)
	if err != nil {
		return err
	}
	if err := unix.Linkat(from, name, to, name, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
