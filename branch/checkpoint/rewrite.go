package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// A rewriter restores a checkpoint through the mount of a branch. Thus the programs in the branch can keep running. The
// layer itself must not be changed while it is mounted, because programs would then write to files that are no longer
// in any directory.
type rewriter struct {
	s *Set
	// tree is the mounted branch. Programs of the branch can change it at the same time, and can create links in it.
	tree, layer, base *filetree.Tree
	entries           map[string]*Entry   // entries of the checkpoint, by path
	below             map[string][]string // names of the entries, by directory
	names             map[uint64]int      // number of names of each file in the checkpoint, by inode
	made              map[string]string   // first restored path, by stored content
	target            *target
}

// temporary is the prefix of the names of new files. Each file gets its content before it replaces another file.
const temporary = ".toolhost-undo-"

// Rewrite restores a checkpoint in a mounted branch. The argument "at" is a view of the mount. Files that programs of
// the branch write at the same time can remain.
func (s *Set) Rewrite(at string, r *Restore) error {
	t, err := r.target(s)
	if err != nil {
		return err
	}
	return s.rewrite(at, t)
}

func (s *Set) rewrite(at string, to *target) (err error) {
	w := &rewriter{s: s, target: to, entries: make(map[string]*Entry), below: make(map[string][]string),
		names: make(map[uint64]int), made: make(map[string]string)}
	for _, t := range []struct {
		to   **filetree.Tree
		path string
	}{{&w.tree, at + "/."}, {&w.layer, s.Layer}, {&w.base, s.Base}} {
		if *t.to, err = filetree.Open(t.path); err != nil {
			return err
		}
		defer (*t.to).Close()
	}
	for i := range to.entries {
		e := &to.entries[i]
		w.entries[e.Path] = e
		w.names[e.Inode]++
		if e.Path != "." {
			w.below[filepath.Dir(e.Path)] = append(w.below[filepath.Dir(e.Path)], filepath.Base(e.Path))
		}
	}
	return w.directory(".", false, false, false)
}

// directory restores the entries of a directory, and then the directory itself. The argument "hidden" means that the
// checkpoint hides the base's entries of this directory. The argument "hides" means that the branch currently hides
// them. The argument "fresh" means that the directory was just created.
func (w *rewriter) directory(dir string, hidden, hides, fresh bool) error {
	if err := w.contents(dir, hidden, hides, fresh); err != nil {
		return err
	}
	return w.finishDirectory(dir, hidden)
}

// contents restores the entries of a directory. A command can have closed the directory for its owner. It is open
// meanwhile.
func (w *rewriter) contents(dir string, hidden, hides, fresh bool) error {
	if up, err := w.layer.Stat(dir); err == nil && filetree.LacksOwner(&up, 0o700) {
		if fd, err := w.tree.OpenDirectory(dir); err == nil {
			defer unix.Close(fd) //nolint:errcheck // only opened
			defer filetree.Permit(fd, 0o700)()
		}
	}
	names := slices.Clone(w.below[dir])
	trees := []*filetree.Tree{w.layer}
	if hidden || hides || fresh {
		trees = append(trees, w.tree)
	}
	if !hidden && (hides || fresh) {
		trees = append(trees, w.base)
	}
	for _, t := range trees {
		more, err := w.list(t, dir)
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := w.entry(filepath.Join(dir, name), hidden, hides); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a directory of a tree. For a missing directory, it returns no names.
func (w *rewriter) list(t *filetree.Tree, dir string) ([]string, error) {
	fd, err := t.OpenDirectory(dir)
	if filetree.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	if os.Geteuid() != 0 {
		defer filetree.Permit(fd, 0o500)()
	}
	return filetree.Names(filetree.Descriptor(fd))
}

// wanted is the state of a path at the checkpoint.
type wanted struct {
	mode  uint32 // 0 if the path did not exist
	entry *Entry // nil if the path was unchanged in the base
	base  unix.Stat_t
}

func (w *wanted) isKind(kind uint32) bool { return w.mode&unix.S_IFMT == kind }

// want returns the state of a path at the checkpoint. If the base cannot be read, want returns an error, so that the
// path does not count as deleted.
func (w *rewriter) want(path string, hidden bool) (out wanted, err error) {
	switch e := w.entries[path]; {
	case e != nil && e.whiteout():
	case e != nil:
		out.mode, out.entry = e.Mode, e
	case !hidden:
		out.base, err = w.base.Stat(path)
		if filetree.IsMissing(err) {
			return out, nil
		}
		out.mode = uint32(out.base.Mode) //nolint:unconvert // not all systems have 32 bits here
	}
	return out, err
}

func (w *rewriter) entry(path string, hidden, hides bool) error {
	if strings.HasPrefix(filepath.Base(path), temporary) || w.target.stays(path) {
		return nil
	}
	want, err := w.want(path, hidden)
	if err != nil {
		return err
	}
	up, err := w.layer.Stat(path)
	if err != nil && !filetree.IsMissing(err) {
		return err
	}
	there := err == nil
	dir := want.isKind(unix.S_IFDIR)
	switch {
	case there && w.entries[path] == nil && up.Mode&unix.S_IFMT == unix.S_IFSOCK:
		return nil // keep a socket, because a program can listen on it and checkpoints contain no sockets
	case there && want.entry != nil && !dir && want.entry.unchanged(&up):
		return nil
	case !there && w.entries[path] == nil && !hidden && !hides:
		return nil // both at the checkpoint and now, the branch shows the base's path
	}
	now, err := w.tree.Stat(path)
	if err != nil && !filetree.IsMissing(err) {
		return err
	}
	exists, isDir := err == nil, now.Mode&unix.S_IFMT == unix.S_IFDIR
	killpoint.Pass()
	switch {
	case want.mode == 0 && !exists:
		return nil
	case want.mode == 0:
		return w.remove(path, isDir)
	case !dir && exists && isDir && w.target.staysBelow(path):
		return w.remove(path, true)
	case !dir && exists && isDir:
		if err := w.removeAll(path); err != nil {
			return err
		}
	case dir && exists && !isDir:
		if err := w.unlink(path, 0); err != nil {
			return err
		}
		exists = false
	}
	if !dir {
		return w.write(path, &want, &now, exists)
	}
	if !exists {
		if err := w.makeDirectory(path); err != nil {
			return err
		}
	}
	return w.enter(path, &want, hidden, hides, there, !exists)
}

// enter restores a directory and its entries. The directory already exists in the mounted branch. It finds out whether
// the directories of the base and of the layer are visible below it. The argument "there" reports whether the layer has
// the directory.
func (w *rewriter) enter(path string, want *wanted, hidden, hides, there, created bool) error {
	below, err := w.base.Stat(path)
	if err != nil && !filetree.IsMissing(err) {
		return err
	}
	onlyLayer := err != nil || below.Mode&unix.S_IFMT != unix.S_IFDIR
	hiddenBelow := hidden || onlyLayer || want.entry != nil && len(want.entry.Attributes[filetree.OpaqueMark]) > 0
	opaque, err := w.opaque(path)
	if err != nil {
		return err
	}
	return w.directory(path, hiddenBelow, hides || onlyLayer || there && opaque, created)
}

// opaque reports whether a directory of the layer hides the directory of the base.
func (w *rewriter) opaque(path string) (bool, error) {
	at, err := w.layer.At(path)
	if filetree.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return filetree.IsOpaque(at)
}

// inDirectory calls the function "do" with the directory of a path in the mounted branch. Meanwhile, the directory is
// writable.
func (w *rewriter) inDirectory(path string, do func(dir int, name string) error) error {
	dir, name, err := w.tree.Entry(path)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		defer filetree.Permit(dir, 0o300)()
	}
	if err := do(dir, name); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (w *rewriter) makeDirectory(path string) error {
	return w.inDirectory(path, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
}

func (w *rewriter) unlink(path string, flags int) error {
	return w.inDirectory(path, func(dir int, name string) error {
		if err := unix.Unlinkat(dir, name, flags); !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	})
}

// remove removes a path. It keeps the paths that must stay, and the directories above them.
func (w *rewriter) remove(path string, isDir bool) error {
	switch {
	case w.target.stays(path):
		return nil
	case !isDir:
		return w.unlink(path, 0)
	case !w.target.staysBelow(path):
		return w.removeAll(path)
	}
	names, err := w.list(w.tree, path)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := filepath.Join(path, name)
		st, err := w.tree.Stat(at)
		if err != nil {
			continue // the file has disappeared
		}
		if err := w.remove(at, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
			return err
		}
	}
	return nil
}

func (w *rewriter) removeAll(path string) error {
	names, err := w.list(w.tree, path)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := filepath.Join(path, name)
		st, err := w.tree.Stat(at)
		if err != nil {
			continue // the file has disappeared
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = w.removeAll(at)
		} else {
			err = w.unlink(at, 0)
		}
		if err != nil {
			return err
		}
	}
	return w.unlink(path, unix.AT_REMOVEDIR)
}

// write restores a path that is not a directory. If a program has the old file open, the program keeps the old file.
func (w *rewriter) write(path string, want *wanted, now *unix.Stat_t, exists bool) error {
	if exists && want.entry == nil {
		if same, err := w.same(path, want, now); err != nil || same {
			return err
		}
	}
	fresh := filepath.Join(filepath.Dir(path), temporary+filepath.Base(path))
	if len(filepath.Base(fresh)) > 255 {
		fresh = filepath.Join(filepath.Dir(path), temporary+"file")
	}
	if err := w.unlink(fresh, 0); err != nil { // remove a file that a killed process left
		return err
	}
	if err := w.make(fresh, path, want); err != nil {
		return errors.Join(err, w.unlink(fresh, 0))
	}
	killpoint.Pass()
	if err := filetree.Rename(w.tree, fresh, w.tree, path, 0); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), w.unlink(fresh, 0))
	}
	// A rename of two names of the same file does nothing, so remove the temporary name.
	return w.unlink(fresh, 0)
}

// same reports whether a path of the branch equals the path of the base.
func (w *rewriter) same(path string, want *wanted, now *unix.Stat_t) (bool, error) {
	a, err := w.tree.At(path)
	if err != nil {
		return false, err
	}
	b, err := w.base.At(path)
	if err != nil {
		return false, err
	}
	return filetree.Same(a, b, now, &want.base)
}

// make creates a file at the path fresh, in the state that a path had at the checkpoint.
func (w *rewriter) make(fresh, path string, want *wanted) error {
	e := want.entry
	if e != nil && e.Object != "" && w.names[e.Inode] > 1 {
		if first := w.made[e.Object]; first != "" {
			return w.link(first, fresh)
		}
		w.made[e.Object] = path
	}
	var attributes map[string][]byte
	source := ""
	if e == nil {
		at, err := w.base.At(path)
		if err != nil {
			return err
		}
		source, attributes = at, filetree.Attributes(at)
		e = entryOf(path, &want.base)
		if want.isKind(unix.S_IFLNK) {
			if e.Target, err = os.Readlink(at); err != nil {
				return err
			}
		}
	} else {
		source, attributes = w.s.object(e.Object), e.ownAttributes()
	}
	return w.inDirectory(fresh, func(dir int, name string) error {
		at := filetree.Descriptor(dir) + "/" + name
		var err error
		switch e.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			err = filetree.CopyFile(source, at)
		case unix.S_IFLNK:
			err = os.Symlink(e.Target, at)
		default:
			err = unix.Mkfifo(at, 0o600) // apart from whiteouts, the layer contains no devices
		}
		if err != nil {
			return err
		}
		return errors.Join(filetree.SetAttributes(at, attributes), finishEntry(at, e))
	})
}

func (w *rewriter) link(first, fresh string) error {
	from, name, err := w.tree.Entry(first)
	if err != nil {
		return err
	}
	if from, err = unix.Dup(from); err != nil {
		return err
	}
	defer unix.Close(from) //nolint:errcheck // only opened
	return w.inDirectory(fresh, func(dir int, to string) error { return unix.Linkat(from, name, dir, to, 0) })
}

// finishDirectory restores the owner, the mode, the attributes and the times of a directory.
func (w *rewriter) finishDirectory(dir string, hidden bool) error {
	want, err := w.want(dir, hidden)
	if err != nil {
		return err
	}
	up, err := w.layer.Stat(dir)
	if err != nil || !want.isKind(unix.S_IFDIR) {
		return nil // both at the checkpoint and now, the branch shows the base's directory
	}
	e := want.entry
	var attributes map[string][]byte
	if e != nil {
		attributes = e.ownAttributes()
	} else {
		from, err := w.base.OpenDirectory(dir)
		if err != nil {
			return err
		}
		attributes = filetree.Attributes(filetree.Descriptor(from) + "/.")
		_ = unix.Close(from)
		e = entryOf(dir, &want.base)
	}
	fd, err := w.tree.OpenDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only opened
	at := filetree.Descriptor(fd) + "/."
	now := filetree.Attributes(at)
	for name := range now {
		if _, kept := attributes[name]; !kept {
			err = errors.Join(err, unix.Removexattr(at, name))
		}
	}
	if uint32(up.Mode) == e.Mode && up.Uid == e.Uid && up.Gid == e.Gid && up.Mtim.Nano() == e.Mtime && maps.EqualFunc(now, attributes, bytes.Equal) { //nolint:unconvert // not all systems have 32 bits here
		return err
	}
	if err = errors.Join(err, filetree.SetAttributes(at, attributes), finishEntry(at, e)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
