package branch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// exchanger makes the steps of a journal. Each step is made of renames, and the inodes tell which of them were made.
type exchanger struct {
	b                  *Branch
	j                  *journal
	base, layer, store *tree
	// fresh means that the apply has just begun. Otherwise, an earlier process can already have made some of the steps.
	fresh bool
	// refreshed means that git wrote an index again, so that the journal must have its new inode.
	refreshed bool
}

func (b *Branch) newExchange(j *journal) (x *exchanger, err error) {
	x = &exchanger{b: b, j: j}
	layer := b.Layer()
	if j.Whole != 0 && b.exchanged(j) {
		layer = j.upper()
	}
	for _, t := range []struct {
		to   **tree
		path string
	}{{&x.base, b.Base}, {&x.layer, layer}, {&x.store, j.dir}} {
		if *t.to, err = openTree(t.path); err != nil {
			x.close()
			return nil, err
		}
	}
	return x, nil
}

func (x *exchanger) close() {
	for _, t := range []*tree{x.base, x.layer, x.store} {
		if t != nil {
			t.close()
		}
	}
}

// sync waits until all renames are on disk.
func (x *exchanger) sync() error {
	d, err := os.Open(x.base.path)
	if err != nil {
		return err
	}
	return errors.Join(syncAll(int(d.Fd())), d.Close())
}

// errChanged means that the base changed between the search for conflicts and the exchange.
var errChanged = errors.New("the workspace changed it at this moment. Repeat the command")

func (x *exchanger) forward(i int) error {
	s, item := &x.j.Steps[i], strconv.Itoa(i)
	x.recognize(s)
	if x.j.Whole != 0 {
		return x.forwardWhole(s, item)
	}
	switch {
	case s.Drop:
		if s.Op == OpMetadata {
			return nil // the layer's directory stays, with the mode of the base
		}
		if x.layer.inode(s.Path) != s.New {
			return nil
		}
		return rename(x.layer, s.Path, x.store, item, noReplace)
	case s.Made:
		return x.install(s, item)
	case s.Op == OpMetadata:
		return x.metadata(s.Path, s.Mode, s.Owner, s.Attributes, s.OldAttributes)
	case s.Op == OpCreate:
		return x.create(s)
	case s.Op == OpDelete:
		return x.delete(s, item)
	}
	return x.replace(s, item)
}

// recognize finds an applied index of git again that git has only refreshed since. A "git status" can do that between the kill of
// an apply and its completion.
func (x *exchanger) recognize(s *step) {
	if x.fresh || s.Index == "" {
		return
	}
	at := x.base.inode(s.Path)
	if at != 0 && at != s.New && at != s.Old.Inode && indexSum(filepath.Join(x.base.path, s.Path)) == s.Index {
		s.New = at
	}
}

// made reports whether a rename was made: the path has the inode that it gets.
func (x *exchanger) made(t *tree, path string, inode uint64) bool {
	return !x.fresh && t.inode(path) == inode
}

func (x *exchanger) create(s *step) error {
	if x.made(x.base, s.Path, s.New) {
		return nil
	}
	if err := x.clean(x.layer, s.Path, s.Opaque); err != nil {
		return err
	}
	return x.move(x.layer, s.Path, s)
}

// mine is the name in the journal of the layer's version of a path that gets another content.
func mine(item string) string { return item + ".mine" }

// install moves a content from the journal to a path of the base.
func (x *exchanger) install(s *step, item string) error {
	if s.Mine != 0 && x.layer.inode(s.Path) == s.Mine {
		if err := rename(x.layer, s.Path, x.store, mine(item), noReplace); err != nil {
			return err
		}
		killed()
	}
	if s.Op == OpCreate {
		return x.move(x.store, item, s)
	}
	return x.swap(x.store, item, s)
}

// uninstall takes install back.
func (x *exchanger) uninstall(s *step, item string) error {
	if x.base.inode(s.Path) == s.New {
		flags := uint(exchange)
		if s.Op == OpCreate {
			flags = noReplace
		}
		if err := rename(x.base, s.Path, x.store, item, flags); err != nil {
			return err
		}
		killed()
	}
	if s.Mine == 0 || x.store.inode(mine(item)) != s.Mine {
		return nil
	}
	if err := x.layer.parents(s.Path, x.base); err != nil {
		return err
	}
	return rename(x.store, mine(item), x.layer, s.Path, noReplace)
}

func (x *exchanger) delete(s *step, item string) error {
	if x.fresh || x.store.inode(item) == 0 {
		if err := rename(x.base, s.Path, x.store, item, noReplace); err != nil {
			return err
		}
		killed()
	}
	if !x.unchanged(s, x.store, item) {
		return errors.Join(errChanged, rename(x.store, item, x.base, s.Path, noReplace))
	}
	return x.dropWhiteout(s.Path)
}

func (x *exchanger) dropWhiteout(path string) error {
	st, err := x.layer.stat(path)
	if err != nil || !isWhiteout(&st) {
		return nil //nolint:nilerr // it is gone
	}
	dir, name, err := x.layer.entry(path)
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, 0)
}

func (x *exchanger) replace(s *step, item string) error {
	if !x.made(x.base, s.Path, s.New) {
		if !x.made(x.store, item, s.New) {
			if err := x.clean(x.layer, s.Path, s.Opaque); err != nil {
				return err
			}
			if err := rename(x.layer, s.Path, x.store, item, noReplace); err != nil {
				return err
			}
			killed()
		}
		if err := rename(x.store, item, x.base, s.Path, exchange); err != nil {
			return err
		}
		killed()
	}
	if !x.unchanged(s, x.store, item) {
		return errors.Join(errChanged, rename(x.store, item, x.base, s.Path, exchange))
	}
	if !s.Opaque {
		return nil
	}
	return x.unmark(x.base, s.Path)
}

// unchanged reports whether a displaced file is the one that was there when the conflicts were searched.
func (x *exchanger) unchanged(s *step, at *tree, path string) bool {
	st, err := at.stat(path)
	if err != nil {
		return false
	}
	now := stampFrom(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return now.Inode == s.Old.Inode && now.Mode == s.Old.Mode && newest(filepath.Join(at.path, path), x.j.Checked, false) == ""
	}
	return now == s.Old
}

// clean removes what only has a meaning in a layer from a tree that moves to the base: marks of the overlay below its top,
// whiteouts, pipes and sockets.
func (x *exchanger) clean(t *tree, path string, opaque bool) error {
	st, err := t.stat(path)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return x.unmark(t, path)
	}
	top := filepath.Join(t.path, path)
	err = filepath.WalkDir(top, func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR, unix.S_IFBLK, unix.S_IFIFO, unix.S_IFSOCK:
			return os.Remove(at) //nolint:gosec // nobody else uses the layer, which is locked
		case unix.S_IFLNK:
			return nil
		}
		if at == top && opaque {
			return nil // the mark hides the base until the exchange
		}
		return removeMarks(at)
	})
	return err
}

// unmark removes the marks of the overlay from one entry.
func (x *exchanger) unmark(t *tree, path string) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	return removeMarks(at)
}

var marks = []string{opaqueMark, originMark, "user.overlay.impure", "user.overlay.nlink", "user.overlay.upper", "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.protattr", "user.overlay.uuid", "user.overlay.whiteout", "user.overlay.xwhiteouts"}

func removeMarks(path string) error {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, 64<<10) // the most that the kernel returns
		n, err = unix.Llistxattr(path, names)
	}
	if err != nil || n == 0 {
		return nil // without attributes there are no marks
	}
	for m := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(m, markPrefix) {
			continue
		}
		err := unix.Lremovexattr(path, m)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) { // a read-only file of this user, or a link
			err = forceRemove(path, m)
		}
		if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}

// forceRemove removes an attribute of a file that its owner cannot write.
func forceRemove(path, name string) error {
	fd, err := unix.Open(path, openPath|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only opened
	var st unix.Stat_t
	at := descriptor(fd)
	if _, absent := unix.Getxattr(at, name, nil); absent != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK || unix.Chmod(at, uint32(st.Mode)&0o7777|0o600) != nil { //nolint:unconvert // not all systems have 32 bits here
		return nil
	}
	return errors.Join(unix.Removexattr(at, name), unix.Chmod(at, uint32(st.Mode)&0o7777)) //nolint:unconvert // as above
}

// metadata sets the mode, the owner and the attributes of a directory of the base.
func (x *exchanger) metadata(path string, mode uint32, owner [2]uint32, now, before map[string][]byte) error {
	parent, name := x.base.root, "."
	if path != "." {
		var err error
		if parent, name, err = x.base.entry(path); err != nil {
			return err
		}
	}
	// The open directory stays the same one if a program puts a link in its place.
	dir, err := unix.Openat(parent, name, openPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir) //nolint:errcheck // only opened
	at := descriptor(dir)
	for name := range before {
		if _, kept := now[name]; !kept {
			if err := unix.Removexattr(at, name); err != nil && !errors.Is(err, unix.ENODATA) {
				return err
			}
		}
	}
	for name, value := range now {
		if err := unix.Setxattr(at, name, value, 0); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := unix.Chown(at, int(owner[0]), int(owner[1])); err != nil {
			return err
		}
	}
	return unix.Chmod(at, mode)
}

// displaced returns where the old content of a path of the base is.
func (x *exchanger) displaced(i int) string {
	if s := &x.j.Steps[i]; x.j.Whole != 0 && !s.Made {
		return filepath.Join(x.layer.path, s.Path)
	}
	return filepath.Join(x.store.path, strconv.Itoa(i))
}

// backward takes a step back: the base gets its displaced file, and the layer gets its own.
func (x *exchanger) backward(i int) error {
	s, item := &x.j.Steps[i], strconv.Itoa(i)
	if s.addsObjects() {
		return x.shareObjects(s.Path)
	}
	if x.j.Whole != 0 {
		return x.backwardWhole(s, item)
	}
	if s.Op == OpMetadata {
		if s.Drop {
			return nil
		}
		return x.metadata(s.Path, s.OldMode, s.OldOwner, s.OldAttributes, s.Attributes)
	}
	if s.Made && !s.Drop {
		return x.uninstall(s, item)
	}
	if s.New != 0 {
		if err := x.layer.parents(s.Path, x.base); err != nil {
			return err
		}
	}
	switch {
	case s.Drop:
		if x.store.inode(item) == 0 {
			return nil
		}
		return rename(x.store, item, x.layer, s.Path, noReplace)
	case s.Op == OpCreate:
		if x.base.inode(s.Path) != s.New {
			return nil
		}
		return x.intoLayer(s, x.base, s.Path)
	case s.Op == OpDelete:
		if x.store.inode(item) != 0 {
			if err := rename(x.store, item, x.base, s.Path, noReplace); err != nil {
				return err
			}
			killed()
		}
		if s.New == 0 {
			return nil // the layer had nothing there
		}
		return x.makeWhiteout(s.Path)
	}
	if x.base.inode(s.Path) == s.New {
		if err := rename(x.store, item, x.base, s.Path, exchange); err != nil {
			return err
		}
		killed()
	}
	if x.store.inode(item) != s.New {
		return nil
	}
	return x.intoLayer(s, x.store, item)
}

// intoLayer moves the layer's version of a path back to the layer.
func (x *exchanger) intoLayer(s *step, from *tree, path string) error {
	if s.Opaque {
		if err := markOpaque(from, path); err != nil {
			return err
		}
	}
	return rename(from, path, x.layer, s.Path, noReplace)
}

func markOpaque(t *tree, path string) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	return unix.Lsetxattr(at, opaqueMark, []byte("y"), 0)
}

func (x *exchanger) makeWhiteout(path string) error {
	dir, name, err := x.layer.entry(path)
	if err != nil {
		return err
	}
	if err := whiteoutAt(dir, name); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// parents creates missing directories of a layer above a path, with the modes of the base.
func (t *tree) parents(path string, base *tree) error {
	dir := filepath.Dir(path)
	if dir == "." || t.inode(dir) != 0 {
		return nil
	}
	if err := t.parents(dir, base); err != nil {
		return err
	}
	st, err := base.stat(dir)
	if err != nil {
		return err
	}
	at, name, err := t.entry(dir)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := unix.Fchownat(at, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return unix.Fchmodat(at, name, uint32(st.Mode)&0o7777, 0) //nolint:unconvert // not all systems have 32 bits here
}
