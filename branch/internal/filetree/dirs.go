// Package filetree reads, copies and changes directory trees that other programs can change at the same time. [Tree]
// renames entries without following links, and [CopyFile] and [Same] copy and compare single files. A tree can be the
// layer of an overlay. Marks in a layer mean that a name is deleted or hidden; see [IsWhiteout] and [IsOpaque].
package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Tree provides access to the entries of a directory tree. It never follows a link. Otherwise, a program that changes
// the tree at the same time could redirect a rename to a path outside of the tree.
type Tree struct {
	Path string
	root int
	last string // last is the directory that was opened last, and fd is its descriptor
	fd   int
}

// Open opens a tree. The path must not be a link. The caller must call Close.
func Open(path string) (*Tree, error) {
	fd, err := unix.Open(path, OpenPath|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Tree{Path: path, root: fd, last: ".", fd: fd}, nil
}

// Close closes the tree.
func (t *Tree) Close() {
	if t.fd != t.root {
		_ = unix.Close(t.fd)
	}
	_ = unix.Close(t.root)
}

// Root returns the descriptor of the top directory.
func (t *Tree) Root() int { return t.root }

// Entry returns the descriptor of a path's directory, and the name in this directory. The descriptor is valid until the
// next call.
func (t *Tree) Entry(path string) (dir int, name string, err error) {
	parent, name := filepath.Dir(path), filepath.Base(path)
	if parent == t.last {
		return t.fd, name, nil
	}
	fd := t.root
	if parent != "." {
		if fd, err = OpenBelow(t.root, parent); err != nil {
			return -1, "", fmt.Errorf("%s: %w", filepath.Join(t.Path, parent), err)
		}
	}
	if t.fd != t.root {
		_ = unix.Close(t.fd)
	}
	t.last, t.fd = parent, fd
	return fd, name, nil
}

// OpenDirectory opens a directory. The caller must close the descriptor.
func (t *Tree) OpenDirectory(path string) (int, error) {
	if path == "." {
		return unix.Openat(t.root, ".", OpenPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	return OpenBelow(t.root, path)
}

// Stat returns the state of a path. It returns ENOENT for a missing path.
func (t *Tree) Stat(path string) (st unix.Stat_t, err error) {
	dir, name, err := t.Entry(path)
	if err != nil {
		return st, err
	}
	return st, unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
}

// Inode returns the inode of a path, or 0 if the tree does not have the path.
func (t *Tree) Inode(path string) (uint64, error) {
	st, err := t.Stat(path)
	if IsMissing(err) {
		return 0, nil
	}
	return st.Ino, err
}

// IsMissing reports whether an error means that a tree does not have a path. After any other error, it is unknown
// whether the path exists.
func IsMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// At returns a path of an entry for functions that need a path instead of a descriptor. The path is valid until the
// next call of Entry.
func (t *Tree) At(path string) (string, error) {
	dir, name, err := t.Entry(path)
	return Descriptor(dir) + "/" + name, err
}

// Rename renames a path of one tree to a path of another tree. If the user owns a directory but cannot write in it,
// Rename makes the directory writable during the rename.
func Rename(from *Tree, a string, to *Tree, b string, flags uint) error {
	dirA, nameA, err := from.Entry(a)
	if err != nil {
		return err
	}
	dirB, nameB, err := to.Entry(b)
	if err != nil {
		return err
	}
	err = renameAt(dirA, nameA, dirB, nameB, flags)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	undo := []func(){writable(dirA), writable(dirB)}
	if entry, openErr := unix.Openat(dirA, nameA, OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0); openErr == nil {
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
func writable(dir int) (restore func()) { return Permit(dir, 0o300) }

// Permit adds permission bits to the mode of a directory. The returned function restores the mode.
func Permit(dir int, bits uint32) (restore func()) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || uint32(st.Mode)&bits == bits || unix.Chmod(Descriptor(dir), uint32(st.Mode)&0o7777|bits) != nil { //nolint:unconvert // not all systems have 32 bits here
		return func() {}
	}
	return func() { _ = unix.Chmod(Descriptor(dir), uint32(st.Mode)&0o7777) } //nolint:unconvert // as above
}

// PermitPath is like Permit for the path of a directory. It does not follow a link.
func PermitPath(dir string, bits uint32) (restore func()) {
	fd, err := unix.Open(dir, OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	undo := Permit(fd, bits)
	return func() {
		undo()
		_ = unix.Close(fd)
	}
}

// LacksOwner reports whether the mode of a directory lacks one of the permissions "need", such as 0o500, for this user,
// its owner. It returns false for root, which needs no permissions.
func LacksOwner(dir *unix.Stat_t, need uint32) bool {
	return os.Geteuid() != 0 && dir.Mode&unix.S_IFMT == unix.S_IFDIR && uint32(dir.Mode)&need != need //nolint:unconvert // not all systems have 32 bits here
}

// SetMode sets the mode in a state. Its type depends on the system.
func SetMode(st *unix.Stat_t, mode uint32) { setMode(&st.Mode, mode) }

func setMode[T uint16 | uint32](to *T, mode uint32) { *to = T(mode) }

// Parents creates the missing parent directories of a path in a layer. It gives them the owners, the modes and the
// attributes of the directories in the base.
func (t *Tree) Parents(path string, base *Tree) error {
	dir := filepath.Dir(path)
	if dir == "." {
		return nil
	}
	if at, err := t.Inode(dir); err != nil || at != 0 {
		return err
	}
	if err := t.Parents(dir, base); err != nil {
		return err
	}
	st, err := base.Stat(dir)
	if err != nil {
		return err
	}
	from, err := base.At(dir)
	if err != nil {
		return err
	}
	at, name, err := t.Entry(dir)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := unix.Fchownat(at, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil &&
		!errors.Is(err, unix.EPERM) {
		return err
	}
	return Like(Descriptor(at)+"/"+name, from, &st)
}

// IsDirectory reports whether a path is a directory. It does not follow a link.
func IsDirectory(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// Names returns the names in a directory, unsorted. It returns no names for a path that is missing or not a directory.
func Names(dir string) ([]string, error) {
	d, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only read
	out, err := d.Readdirnames(-1)
	if IsMissing(err) {
		return nil, nil
	}
	return out, err
}

// IsEmpty reports whether a directory can be read and has no entries.
func IsEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// RemoveAll removes a tree. It can remove directories that cannot be read, such as the work directory of the kernel in
// an overlay.
func RemoveAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is removed below; ignore the error, because RemoveAll reports what it cannot remove
		}
		return nil
	})
	return os.RemoveAll(dir)
}
