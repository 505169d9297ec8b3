package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
	"toolhost.dev/branch/internal/killpoint"
)

// Exchange makes the steps of a journal. Each step consists of renames. The inodes of the paths show which renames were
// already made.
type Exchange struct {
	log                Log
	j                  *Journal
	base, layer, store *filetree.Tree
	// Fresh means that the apply has just begun. Otherwise, some steps can already have been made by an earlier
	// process.
	Fresh bool
	// refreshed means that git has rewritten an index. The journal must then record the new inode.
	refreshed bool
	// closed contains the functions that restore the modes of directories, by path. See openParents.
	closed map[string]func(reset bool)
	// unknown is the reason why the state of a path is unknown. If it is set, the current step fails.
	unknown error
}

// inode returns the inode of a path in a tree, or 0 if the path does not exist.
func (x *Exchange) inode(t *filetree.Tree, path string) uint64 {
	at, err := t.Inode(path)
	if err != nil && x.unknown == nil {
		x.unknown = err
	}
	return at
}

// certain returns the error of a step. If the step depends on a path that could not be read, certain also returns the
// reason why it could not be read.
func (x *Exchange) certain(err error) error {
	err, x.unknown = errors.Join(err, x.unknown), nil
	return err
}

// Exchange returns an exchange for the steps of a journal. The caller must close it.
func (l Log) Exchange(j *Journal) (x *Exchange, err error) {
	x = &Exchange{log: l, j: j}
	layer := l.Layer
	if j.Whole != 0 && l.exchanged(j) {
		layer = j.Upper()
	}
	for _, t := range []struct {
		to   **filetree.Tree
		path string
	}{{&x.base, l.Base}, {&x.layer, layer}, {&x.store, j.dir}} {
		if *t.to, err = filetree.Open(t.path); err != nil {
			x.Close()
			return nil, err
		}
	}
	x.openParents()
	return x, nil
}

// openParents lets their owner use all parent directories of the steps, in the layer and in the base. A command or an
// apply can have closed them. closeParents restores the modes.
func (x *Exchange) openParents() {
	x.closed = make(map[string]func(bool))
	trees := []*filetree.Tree{x.layer, x.base}
	if now, err := filetree.Open(x.log.Layer); err == nil {
		defer now.Close()
		trees = append(trees, now) // another one, if the layer of this journal was put away
	}
	for _, t := range trees {
		seen := map[string]bool{".": true}
		for i := range x.j.Steps {
			x.openParent(t, filepath.Dir(x.j.Steps[i].Path), seen)
		}
	}
}

func (x *Exchange) openParent(t *filetree.Tree, dir string, seen map[string]bool) {
	if seen[dir] {
		return
	}
	seen[dir] = true
	x.openParent(t, filepath.Dir(dir), seen) // the first, because the others are reached through it
	st, err := t.Stat(dir)
	if err != nil || !filetree.LacksOwner(&st, 0o700) {
		return
	}
	if fd, err := t.OpenDirectory(dir); err == nil {
		restore := filetree.Permit(fd, 0o700)
		x.closed[filepath.Join(t.Path, dir)] = func(reset bool) {
			if reset {
				restore()
			}
			_ = unix.Close(fd)
		}
	}
}

// closeParents restores the modes that openParents changed.
func (x *Exchange) closeParents() {
	for _, restore := range x.closed {
		restore(true)
	}
	x.closed = nil
}

// Close closes the directories of the exchange.
func (x *Exchange) Close() {
	x.closeParents()
	for _, t := range []*filetree.Tree{x.base, x.layer, x.store} {
		if t != nil {
			t.Close()
		}
	}
}

// Sync waits until all renames are on disk.
func (x *Exchange) Sync() error {
	d, err := os.Open(x.base.Path)
	if err != nil {
		return err
	}
	return errors.Join(filetree.SyncAll(int(d.Fd())), d.Close())
}

// errChanged means that the base changed between the search for conflicts and the exchange.
var errChanged = errors.New("the workspace changed it at this moment. Repeat the command")

// Forward makes the step i. It returns an error if the base has changed since the search for conflicts.
func (x *Exchange) Forward(i int) error { return x.certain(x.forward(i)) }

func (x *Exchange) forward(i int) error {
	s, item := &x.j.Steps[i], strconv.Itoa(i)
	x.recognize(s)
	if x.j.Whole != 0 {
		return x.forwardWhole(s, item)
	}
	switch {
	case s.Drop:
		if s.Op == change.OpMetadata {
			return nil // the directory of the layer stays; its mode follows the base
		}
		if x.inode(x.layer, s.Path) != s.New {
			return nil
		}
		return filetree.Rename(x.layer, s.Path, x.store, item, filetree.NoReplace)
	case s.Made:
		return x.install(s, item)
	case s.Op == change.OpMetadata:
		return x.metadata(s.Path, s.Mode, s.Owner, s.Attributes, s.OldAttributes)
	case s.Op == change.OpCreate:
		return x.create(s)
	case s.Op == change.OpDelete:
		return x.delete(s, item)
	}
	return x.replace(s, item)
}

// recognize updates a step if git has rewritten an applied index without changing its entries. A "git status" between
// the kill of an apply and its completion can do this.
func (x *Exchange) recognize(s *Step) {
	if x.Fresh || s.Index == "" {
		return
	}
	at := x.inode(x.base, s.Path)
	if at != 0 && at != s.New && at != s.Old.Inode && gitstate.IndexSum(filepath.Join(x.base.Path, s.Path)) == s.Index {
		s.New = at
	}
}

// made reports whether a rename was already made. It was made if the path has the expected inode.
func (x *Exchange) made(t *filetree.Tree, path string, inode uint64) bool {
	return !x.Fresh && x.inode(t, path) == inode
}

func (x *Exchange) create(s *Step) error {
	if x.made(x.base, s.Path, s.New) {
		return nil
	}
	if err := x.clean(s); err != nil {
		return err
	}
	return x.move(x.layer, s.Path, s)
}

// mine returns a name in the journal's directory. The layer's version of a path is stored under this name if a new
// content replaces it.
func mine(item string) string { return item + ".mine" }

// install moves a new content from the journal's directory to a path of the base.
func (x *Exchange) install(s *Step, item string) error {
	if s.Mine != 0 && x.inode(x.layer, s.Path) == s.Mine {
		if err := filetree.Rename(x.layer, s.Path, x.store, mine(item), filetree.NoReplace); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if s.Op == change.OpCreate {
		return x.move(x.store, item, s)
	}
	return x.swap(x.store, item, s)
}

// uninstall undoes install.
func (x *Exchange) uninstall(s *Step, item string) error {
	if x.inode(x.base, s.Path) == s.New {
		flags := uint(filetree.Exchange)
		if s.Op == change.OpCreate {
			flags = filetree.NoReplace
		}
		if err := filetree.Rename(x.base, s.Path, x.store, item, flags); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if s.Mine == 0 || x.inode(x.store, mine(item)) != s.Mine {
		return nil
	}
	if err := x.layer.Parents(s.Path, x.base); err != nil {
		return err
	}
	return filetree.Rename(x.store, mine(item), x.layer, s.Path, filetree.NoReplace)
}

func (x *Exchange) delete(s *Step, item string) error {
	if x.Fresh || x.inode(x.store, item) == 0 {
		if err := filetree.Rename(x.base, s.Path, x.store, item, filetree.NoReplace); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if !x.unchanged(s, x.store, item) {
		return errors.Join(errChanged, filetree.Rename(x.store, item, x.base, s.Path, filetree.NoReplace))
	}
	return x.dropWhiteout(s.Path)
}

func (x *Exchange) dropWhiteout(path string) error {
	st, err := x.layer.Stat(path)
	if err != nil && !filetree.IsMissing(err) {
		return err
	}
	if err != nil || !filetree.IsWhiteout(&st) {
		return nil //nolint:nilerr // it is gone
	}
	dir, name, err := x.layer.Entry(path)
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, 0)
}

func (x *Exchange) replace(s *Step, item string) error {
	if !x.made(x.base, s.Path, s.New) {
		if !x.made(x.store, item, s.New) {
			if err := x.clean(s); err != nil {
				return err
			}
			if err := filetree.Rename(x.layer, s.Path, x.store, item, filetree.NoReplace); err != nil {
				return err
			}
			killpoint.Pass()
		}
		if err := filetree.Rename(x.store, item, x.base, s.Path, filetree.Exchange); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if !x.unchanged(s, x.store, item) {
		return errors.Join(errChanged, filetree.Rename(x.store, item, x.base, s.Path, filetree.Exchange))
	}
	if !s.Opaque {
		return nil
	}
	return x.unmark(x.base, s.Path)
}

// unchanged reports whether a displaced file is in the same state as at the search for conflicts.
func (x *Exchange) unchanged(s *Step, at *filetree.Tree, path string) bool {
	st, err := at.Stat(path)
	if err != nil {
		return false
	}
	now := change.StampOf(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return now.Inode == s.Old.Inode && now.Mode == s.Old.Mode &&
			change.Newest(filepath.Join(at.Path, path), x.j.Checked, false) == ""
	}
	return now == s.Old
}

// clean removes from an entry of the layer everything that has a meaning only in a layer: the marks of the overlay,
// whiteouts, pipes and sockets. If the step is opaque, it keeps the mark of the top directory.
func (x *Exchange) clean(s *Step) error {
	if s.Is != "directory" {
		return x.unmark(x.layer, s.Path)
	}
	top := filepath.Join(x.layer.Path, s.Path)
	return filetree.WalkOwn(top, 0o700, func(at, _ string, st *unix.Stat_t, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR, unix.S_IFBLK, unix.S_IFIFO, unix.S_IFSOCK:
			return os.Remove(at)
		case unix.S_IFLNK:
			return nil
		}
		if at == top && s.Opaque {
			return nil // keep this mark, because it hides the base until the exchange
		}
		return filetree.RemoveMarks(at)
	})
}

// unmark removes the marks of the overlay from a single entry.
func (x *Exchange) unmark(t *filetree.Tree, path string) error {
	at, err := t.At(path)
	if err != nil {
		return err
	}
	return filetree.RemoveMarks(at)
}

// metadata sets the mode, the owner and the attributes of a directory of the base.
func (x *Exchange) metadata(path string, mode uint32, owner [2]uint32, now, before map[string][]byte) error {
	parent, name := x.base.Root(), "."
	if path != "." {
		var err error
		if parent, name, err = x.base.Entry(path); err != nil {
			return err
		}
	}
	// Use a descriptor, which still refers to the directory if a program replaces the directory by a link.
	dir, err := unix.Openat(parent, name, filetree.OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir) //nolint:errcheck // only opened
	at := filetree.Descriptor(dir)
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
	if forget := x.closed[filepath.Join(x.base.Path, path)]; forget != nil {
		forget(false) // this step decides about the mode
		delete(x.closed, filepath.Join(x.base.Path, path))
	}
	if os.Geteuid() == 0 {
		if err := unix.Chown(at, int(owner[0]), int(owner[1])); err != nil {
			return err
		}
	}
	return unix.Chmod(at, mode)
}

// Displaced returns the path at which the displaced content of step i is stored.
func (x *Exchange) Displaced(i int) string {
	if s := &x.j.Steps[i]; x.j.Whole != 0 && !s.Made {
		return filepath.Join(x.layer.Path, s.Path)
	}
	return filepath.Join(x.store.Path, strconv.Itoa(i))
}

// Backward undoes a step: the base gets its displaced file again, and the layer gets its own file.
func (x *Exchange) Backward(i int) error { return x.certain(x.backward(i)) }

func (x *Exchange) backward(i int) error {
	s, item := &x.j.Steps[i], strconv.Itoa(i)
	if s.addsObjects() {
		return x.shareObjects(s.Path)
	}
	if s.Gone {
		return x.refill(s, item)
	}
	if x.j.Whole != 0 {
		return x.backwardWhole(s, item)
	}
	if s.Op == change.OpMetadata {
		if s.Drop {
			return nil
		}
		return x.metadata(s.Path, s.OldMode, s.OldOwner, s.OldAttributes, s.Attributes)
	}
	if s.Made && !s.Drop {
		return x.uninstall(s, item)
	}
	if s.New != 0 {
		if err := x.layer.Parents(s.Path, x.base); err != nil {
			return err
		}
	}
	switch {
	case s.Drop:
		if x.inode(x.store, item) == 0 {
			return nil
		}
		return filetree.Rename(x.store, item, x.layer, s.Path, filetree.NoReplace)
	case s.Op == change.OpCreate:
		if x.inode(x.base, s.Path) != s.New {
			return nil
		}
		return x.intoLayer(s, x.base, s.Path)
	case s.Op == change.OpDelete:
		if x.inode(x.store, item) != 0 {
			if err := filetree.Rename(x.store, item, x.base, s.Path, filetree.NoReplace); err != nil {
				return err
			}
			killpoint.Pass()
		}
		if s.New == 0 {
			return nil // the layer contained nothing at this path
		}
		return x.makeWhiteout(s.Path)
	}
	if x.inode(x.base, s.Path) == s.New {
		if err := filetree.Rename(x.store, item, x.base, s.Path, filetree.Exchange); err != nil {
			return err
		}
		killpoint.Pass()
	}
	if x.inode(x.store, item) != s.New {
		return nil
	}
	return x.intoLayer(s, x.store, item)
}

// refill restores the displaced version of a path in the base after a guard removed the applied version. The branch
// does not get its own version back.
func (x *Exchange) refill(s *Step, item string) error {
	from, at := x.store, item
	if x.j.Whole != 0 && !s.Made {
		from, at = x.layer, s.Path
	}
	if s.Op == change.OpCreate || x.inode(from, at) != s.Old.Inode {
		return nil
	}
	return filetree.Rename(from, at, x.base, s.Path, filetree.NoReplace)
}

// intoLayer moves the layer's version of a path back to the layer.
func (x *Exchange) intoLayer(s *Step, from *filetree.Tree, path string) error {
	if s.Opaque {
		if err := markOpaque(from, path); err != nil {
			return err
		}
	}
	return filetree.Rename(from, path, x.layer, s.Path, filetree.NoReplace)
}

func markOpaque(t *filetree.Tree, path string) error {
	at, err := t.At(path)
	if err != nil {
		return err
	}
	return unix.Lsetxattr(at, filetree.OpaqueMark, []byte("y"), 0)
}

func (x *Exchange) makeWhiteout(path string) error {
	dir, name, err := x.layer.Entry(path)
	if err != nil {
		return err
	}
	if err := filetree.WhiteoutAt(dir, name); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
