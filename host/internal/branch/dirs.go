package branch

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tree provides access to the entries of a directory tree. It never follows a link, so that no program that changes the tree
// at the same time can lead a rename out of it.
type tree struct {
	path string
	root int
	last string // the directory that was opened last, and its descriptor
	fd   int
}

func openTree(path string) (*tree, error) {
	fd, err := unix.Open(path, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &tree{path: path, root: fd, last: ".", fd: fd}, nil
}

func (t *tree) close() {
	if t.fd != t.root {
		_ = unix.Close(t.fd)
	}
	_ = unix.Close(t.root)
}

// entry returns the directory of a path and the name in it. The descriptor is valid until the next call.
func (t *tree) entry(path string) (dir int, name string, err error) {
	parent, name := filepath.Dir(path), filepath.Base(path)
	if parent == t.last {
		return t.fd, name, nil
	}
	fd := t.root
	if parent != "." {
		if fd, err = openBelow(t.root, parent); err != nil {
			return -1, "", fmt.Errorf("%s: %w", filepath.Join(t.path, parent), err)
		}
	}
	if t.fd != t.root {
		_ = unix.Close(t.fd)
	}
	t.last, t.fd = parent, fd
	return fd, name, nil
}

// stat returns the state of a path. It returns ENOENT for a missing path.
func (t *tree) stat(path string) (st unix.Stat_t, err error) {
	dir, name, err := t.entry(path)
	if err != nil {
		return st, err
	}
	return st, unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
}

// inode returns the inode of a path, or 0 if the path does not exist.
func (t *tree) inode(path string) uint64 {
	st, err := t.stat(path)
	if err != nil {
		return 0
	}
	return st.Ino
}

// at returns a path through which other functions of the system reach an entry. It is valid until the next call of entry.
func (t *tree) at(path string) (string, error) {
	dir, name, err := t.entry(path)
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name), err
}

// rename renames a path of one tree to a path of another. Directories that the user may not write, but owns, are made
// writable for the time of the rename.
func rename(from *tree, a string, to *tree, b string, flags uint) error {
	dirA, nameA, err := from.entry(a)
	if err != nil {
		return err
	}
	dirB, nameB, err := to.entry(b)
	if err != nil {
		return err
	}
	err = renameAt(dirA, nameA, dirB, nameB, flags)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	undo := []func(){writable(dirA), writable(dirB)}
	if entry, openErr := unix.Openat(dirA, nameA, openPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); openErr == nil {
		defer unix.Close(entry)              //nolint:errcheck // only opened
		undo = append(undo, writable(entry)) // the rename of a directory changes its entry ".."
	}
	err = renameAt(dirA, nameA, dirB, nameB, flags)
	for _, f := range undo {
		f()
	}
	return err
}

// writable makes a directory writable for its owner. The returned function restores the mode.
func writable(dir int) (restore func()) { return permit(dir, 0o300) }

// permit adds permissions of its owner to a directory. The returned function restores the mode.
func permit(dir int, bits uint32) (restore func()) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || uint32(st.Mode)&bits == bits || unix.Chmod(descriptor(dir), uint32(st.Mode)&0o7777|bits) != nil { //nolint:unconvert // not all systems have 32 bits here
		return func() {}
	}
	return func() { _ = unix.Chmod(descriptor(dir), uint32(st.Mode)&0o7777) } //nolint:unconvert // as above
}

// descriptor returns a path that leads to what a descriptor refers to.
func descriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
