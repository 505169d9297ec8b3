package branch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gitLock is a lock file of git in the base. While the file exists, git changes neither refs nor the index.
type gitLock struct {
	Path  string `json:"path"`
	Inode uint64 `json:"inode"`
}

func lockName(i int) string { return "lock-" + strconv.Itoa(i) }

// locksFor returns the locks for the steps of an apply.
func (b *Branch) locksFor(steps []step) (out []gitLock) {
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
		if isDirectory(filepath.Dir(filepath.Join(b.Base, path))) {
			out = append(out, gitLock{Path: path})
		}
	}
	slices.SortFunc(out, func(a, b gitLock) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// lock takes the locks of git. If needed is true, a lock of another process is an error. An apply that an earlier process began
// must be completed in any case, so for it needed is false.
func (x *exchanger) lock(needed bool) error {
	for i, l := range x.j.Locks {
		if x.store.inode(lockName(i)) != l.Inode {
			continue // it is taken
		}
		err := rename(x.store, lockName(i), x.base, l.Path, noReplace)
		if err != nil && needed {
			x.unlock()
			if errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("nothing was changed, because git works in the workspace: it has the lock %s. Wait until it ends, and repeat the command. If no git runs, remove that file", filepath.Join(x.base.path, l.Path))
			}
			return fmt.Errorf("the lock %s cannot be taken: %w", l.Path, err)
		}
		killed()
	}
	return nil
}

// unlock removes the locks that lock took.
func (x *exchanger) unlock() {
	for i, l := range x.j.Locks {
		if x.base.inode(l.Path) == l.Inode {
			_ = rename(x.base, l.Path, x.store, lockName(i), noReplace) // ignore the error: git names the file, which a person can remove
		}
	}
}

// addsObjects reports whether a step adds objects of git. They are never removed again: git does not store an object that it
// finds, so later commits of the workspace can need them.
func (s *step) addsObjects() bool {
	return s.Op == OpCreate && !s.Drop && strings.Contains("/"+s.Path, "/.git/objects/")
}

// shareObjects links the objects of a step into the layer, and leaves them in the base.
func (x *exchanger) shareObjects(path string) error {
	st, err := x.base.stat(path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // the step was not made
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		for _, name := range entriesOf(filepath.Join(x.base.path, path)) {
			if err := x.shareObjects(filepath.Join(path, name)); err != nil {
				return err
			}
		}
		return nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil
	}
	if err := x.layer.parents(path, x.base); err != nil {
		return err
	}
	from, name, err := x.base.entry(path)
	if err != nil {
		return err
	}
	to, _, err := x.layer.entry(path)
	if err != nil {
		return err
	}
	if err := unix.Linkat(from, name, to, name, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
