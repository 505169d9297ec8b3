package journal

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// An apply of all changes exchanges files directly between the layer and the base. The displaced files of the base then
// are in the layer, at the same paths. At the end, the layer moves to the journal, and the branch gets an empty layer.
// An apply of some changes instead moves each file to the directory of the journal, because the other files must stay
// in the layer.

// wholeDir is the name of the layer in the directory of a journal after an apply of all changes.
const wholeDir = "upper"

// Upper returns the path of the layer in the directory of the journal after an apply of all changes.
func (j *Journal) Upper() string { return filepath.Join(j.dir, wholeDir) }

// exchanged reports whether the layer has already moved to the directory of the journal.
func (l Log) exchanged(j *Journal) bool {
	var st unix.Stat_t
	return unix.Lstat(l.Layer, &st) == nil && st.Ino != j.Whole
}

// PutAway moves the layer to the directory of the journal, and gives the branch an empty layer.
func (l Log) PutAway(j *Journal) error {
	if l.exchanged(j) {
		return nil
	}
	if err := change.MakeLayer(j.Upper(), l.Base); err != nil {
		return err
	}
	killpoint.Pass()
	return filetree.ExchangePaths(j.Upper(), l.Layer)
}

// BringBack moves the layer from the directory of the journal back to the branch.
func (x *Exchange) BringBack() error { return x.certain(x.bringBack()) }

func (x *Exchange) bringBack() error {
	if !x.log.exchanged(x.j) {
		return nil
	}
	if filetree.IsEmpty(x.log.Layer) {
		return filetree.ExchangePaths(x.j.Upper(), x.log.Layer)
	}
	now, err := filetree.Open(x.log.Layer)
	if err != nil {
		return err
	}
	defer now.Close()
	for i := range x.j.Steps {
		s := &x.j.Steps[i]
		if s.Op == change.OpMetadata || x.inode(x.layer, s.Path) == 0 {
			continue
		}
		// If an earlier process was killed here, a whiteout can be in the branch already: the next process made it
		// again.
		if (s.addsObjects() || s.Op == change.OpDelete) && x.inode(now, s.Path) != 0 {
			continue
		}
		if err := now.Parents(s.Path, x.base); err != nil {
			return err
		}
		if err := filetree.Rename(x.layer, s.Path, now, s.Path, filetree.NoReplace); err != nil {
			return err
		}
		killpoint.Pass()
	}
	return nil
}

func (x *Exchange) forwardWhole(s *Step, item string) error {
	switch {
	case s.Drop:
		return nil
	case s.Op == change.OpMetadata:
		return x.metadata(s.Path, s.Mode, s.Owner, s.Attributes, s.OldAttributes)
	case s.Op == change.OpCreate && s.Made:
		return x.move(x.store, item, s)
	case s.Op == change.OpCreate:
		return x.create(s)
	case s.Op == change.OpDelete:
		return x.displace(s)
	case s.Made:
		return x.swap(x.store, item, s)
	}
	if !x.made(x.base, s.Path, s.New) {
		if err := x.clean(s); err != nil {
			return err
		}
	}
	if err := x.swap(x.layer, s.Path, s); err != nil || !s.Opaque {
		return err
	}
	return x.unmark(x.base, s.Path)
}

// move adds a new path to the base.
func (x *Exchange) move(from *filetree.Tree, path string, s *Step) error {
	if x.made(x.base, s.Path, s.New) {
		return nil
	}
	err := filetree.Rename(from, path, x.base, s.Path, filetree.NoReplace)
	if errors.Is(err, unix.EEXIST) {
		return errChanged
	}
	return err
}

// swap exchanges a new content with the content of the base.
func (x *Exchange) swap(from *filetree.Tree, path string, s *Step) error {
	if !x.made(x.base, s.Path, s.New) {
		if err := filetree.Rename(from, path, x.base, s.Path, filetree.Exchange); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if !x.unchanged(s, from, path) {
		return errors.Join(errChanged, filetree.Rename(from, path, x.base, s.Path, filetree.Exchange))
	}
	return nil
}

// displace moves a deleted path of the base to the place of its whiteout. If the layer has no whiteout, displace
// creates the directories for the path.
func (x *Exchange) displace(s *Step) error {
	if x.Fresh || x.inode(x.layer, s.Path) == s.New {
		if s.New == 0 {
			if err := x.layer.Parents(s.Path, x.base); err != nil {
				return err
			}
		} else if s.Was == "directory" {
			// Remove the whiteout, because the kernel cannot rename a directory over a file.
			if err := x.dropWhiteout(s.Path); err != nil {
				return err
			}
			killpoint.Pass()
		}
	}
	if x.Fresh || x.inode(x.base, s.Path) == s.Old.Inode {
		if err := filetree.Rename(x.base, s.Path, x.layer, s.Path, 0); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if !x.unchanged(s, x.layer, s.Path) {
		return errors.Join(errChanged, filetree.Rename(x.layer, s.Path, x.base, s.Path, filetree.NoReplace))
	}
	return nil
}

func (x *Exchange) backwardWhole(s *Step, item string) error {
	switch {
	case s.Drop:
		return nil
	case s.Op == change.OpMetadata:
		return x.metadata(s.Path, s.OldMode, s.OldOwner, s.OldAttributes, s.Attributes)
	case s.Op == change.OpDelete:
		return x.replaceDeleted(s)
	case x.inode(x.base, s.Path) != s.New:
		return nil
	case s.Op == change.OpCreate && s.Made:
		return filetree.Rename(x.base, s.Path, x.store, item, filetree.NoReplace)
	case s.Op == change.OpCreate:
		return x.intoLayer(s, x.base, s.Path)
	case s.Made:
		return filetree.Rename(x.base, s.Path, x.store, item, filetree.Exchange)
	}
	if s.Opaque {
		if err := markOpaque(x.base, s.Path); err != nil {
			return err
		}
	}
	return filetree.Rename(x.base, s.Path, x.layer, s.Path, filetree.Exchange)
}

func (x *Exchange) replaceDeleted(s *Step) error {
	st, err := x.layer.Stat(s.Path)
	if err != nil && !filetree.IsMissing(err) {
		return err
	}
	if err == nil && !filetree.IsWhiteout(&st) {
		if err := filetree.Rename(x.layer, s.Path, x.base, s.Path, filetree.NoReplace); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if s.New == 0 {
		return nil // the layer contained nothing at this path
	}
	return x.makeWhiteout(s.Path)
}
