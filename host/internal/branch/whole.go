package branch

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// An apply of all changes exchanges names between the layer and the base directly, and keeps the displaced files where the
// layer had its own. At the end, the journal and the branch exchange this layer and an empty one. An apply of some changes
// moves each file on its own, because the others stay in the layer.

// upper returns the directory with the layer of an apply of all changes.
func (j *journal) upper() string { return filepath.Join(j.dir, upperDir) }

// exchanged reports whether the layer of an apply of all changes is in the journal.
func (b *Branch) exchanged(j *journal) bool {
	var st unix.Stat_t
	return unix.Lstat(b.Layer(), &st) == nil && st.Ino != j.Whole
}

// putAway exchanges the layer and an empty one in the journal.
func (b *Branch) putAway(j *journal) error {
	if b.exchanged(j) {
		return nil
	}
	var base unix.Stat_t
	if err := unix.Stat(b.Base, &base); err != nil {
		return err
	}
	if err := makeLayer(j.upper(), &base); err != nil {
		return err
	}
	killed()
	return exchangePaths(j.upper(), b.Layer())
}

// bringBack moves the layer of an apply back to the branch.
func (x *exchanger) bringBack() error {
	if !x.b.exchanged(x.j) {
		return nil
	}
	if empty(x.b.Layer()) {
		return exchangePaths(x.j.upper(), x.b.Layer())
	}
	now, err := openTree(x.b.Layer())
	if err != nil {
		return err
	}
	defer now.close()
	for i := range x.j.Steps {
		s := &x.j.Steps[i]
		if s.Op == OpMetadata || x.layer.inode(s.Path) == 0 || s.addsObjects() && now.inode(s.Path) != 0 {
			continue
		}
		if err := now.parents(s.Path, x.base); err != nil {
			return err
		}
		if err := rename(x.layer, s.Path, now, s.Path, noReplace); err != nil {
			return err
		}
		killed()
	}
	return nil
}

func (x *exchanger) forwardWhole(s *step, item string) error {
	switch {
	case s.Drop:
		return nil
	case s.Op == OpMetadata:
		return x.metadata(s.Path, s.Mode, s.Owner, s.Attributes, s.OldAttributes)
	case s.Op == OpCreate && s.Made:
		return x.move(x.store, item, s)
	case s.Op == OpCreate:
		return x.create(s)
	case s.Op == OpDelete:
		return x.displace(s)
	case s.Made:
		return x.swap(x.store, item, s)
	}
	if !x.made(x.base, s.Path, s.New) {
		if err := x.clean(x.layer, s.Path, s.Opaque); err != nil {
			return err
		}
	}
	if err := x.swap(x.layer, s.Path, s); err != nil || !s.Opaque {
		return err
	}
	return x.unmark(x.base, s.Path)
}

// move adds a new path to the base.
func (x *exchanger) move(from *tree, path string, s *step) error {
	if x.made(x.base, s.Path, s.New) {
		return nil
	}
	err := rename(from, path, x.base, s.Path, noReplace)
	if errors.Is(err, unix.EEXIST) {
		return errChanged
	}
	return err
}

// swap exchanges a new content and that of the base.
func (x *exchanger) swap(from *tree, path string, s *step) error {
	if !x.made(x.base, s.Path, s.New) {
		if err := rename(from, path, x.base, s.Path, exchange); err != nil {
			return err
		}
		killed()
	}
	if !x.unchanged(s, from, path) {
		return errors.Join(errChanged, rename(from, path, x.base, s.Path, exchange))
	}
	return nil
}

// displace moves a deleted path of the base to the place of its whiteout. Where the layer has no whiteout, it makes the
// directories for it.
func (x *exchanger) displace(s *step) error {
	if x.fresh || x.layer.inode(s.Path) == s.New {
		if s.New == 0 {
			if err := x.layer.parents(s.Path, x.base); err != nil {
				return err
			}
		} else if s.Was == "directory" {
			if err := x.dropWhiteout(s.Path); err != nil { // the kernel does not put a directory in the place of a file
				return err
			}
			killed()
		}
	}
	if x.fresh || x.base.inode(s.Path) == s.Old.Inode {
		if err := rename(x.base, s.Path, x.layer, s.Path, 0); err != nil {
			return err
		}
		killed()
	}
	if !x.unchanged(s, x.layer, s.Path) {
		return errors.Join(errChanged, rename(x.layer, s.Path, x.base, s.Path, noReplace))
	}
	return nil
}

func (x *exchanger) backwardWhole(s *step, item string) error {
	switch {
	case s.Drop:
		return nil
	case s.Op == OpMetadata:
		return x.metadata(s.Path, s.OldMode, s.OldOwner, s.OldAttributes, s.Attributes)
	case s.Op == OpDelete:
		return x.replaceDeleted(s)
	case x.base.inode(s.Path) != s.New:
		return nil
	case s.Op == OpCreate && s.Made:
		return rename(x.base, s.Path, x.store, item, noReplace)
	case s.Op == OpCreate:
		return x.intoLayer(s, x.base, s.Path)
	case s.Made:
		return rename(x.base, s.Path, x.store, item, exchange)
	}
	if s.Opaque {
		if err := markOpaque(x.base, s.Path); err != nil {
			return err
		}
	}
	return rename(x.base, s.Path, x.layer, s.Path, exchange)
}

func (x *exchanger) replaceDeleted(s *step) error {
	st, err := x.layer.stat(s.Path)
	if err == nil && !isWhiteout(&st) {
		if err := rename(x.layer, s.Path, x.base, s.Path, noReplace); err != nil {
			return err
		}
		killed()
	}
	if s.New == 0 {
		return nil // the layer had nothing there
	}
	return x.makeWhiteout(s.Path)
}

// makeLayer creates an empty layer. Its directory has the owner and the mode of the base.
func makeLayer(dir string, base *unix.Stat_t) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_ = os.Lchown(dir, int(base.Uid), int(base.Gid)) // only root can give directories away; others own their base
	return os.Chmod(dir, os.FileMode(base.Mode&0o777))
}
