package filetree

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Walk calls visit for a directory and for everything below it. A directory precedes its entries, and the entries are
// sorted by name. The argument "rel" is the path relative to the top directory, whose path is ".". If visit returns
// [fs.SkipDir] for a directory, Walk does not read the directory. If Walk cannot read a directory, it calls visit a
// second time for the directory, with the error. Walk omits entries that disappear during the walk.
//
// Walk is like [filepath.WalkDir] with the state of each entry, but takes half the time, because it looks up entries
// through the descriptor of their directory.
func Walk(top string, visit func(path, rel string, st *unix.Stat_t, err error) error) error {
	return walker{visit: visit}.top(top)
}

// WalkOwn is like Walk for a tree that belongs to this user, such as a layer. It also enters directories whose mode
// keeps their owner out. While such a directory and its entries are visited, it has the permissions "need" in addition,
// so that visit can read its attributes. The states that visit gets have the original modes.
func WalkOwn(top string, need uint32, visit func(path, rel string, st *unix.Stat_t, err error) error) error {
	return walker{visit: visit, need: need}.top(top)
}

// walker is a walk through a tree. See [Walk] and [WalkOwn].
type walker struct {
	visit func(path, rel string, st *unix.Stat_t, err error) error
	need  uint32
}

func (w walker) top(top string) error {
	var st unix.Stat_t
	if err := unix.Lstat(top, &st); err != nil {
		return err
	}
	return skipped(w.entry(top, "", &st))
}

// entry visits a path and everything below it.
func (w walker) entry(path, rel string, st *unix.Stat_t) error {
	if LacksOwner(st, w.need) {
		defer PermitPath(path, w.need)()
	}
	if err := w.visit(path, cmp.Or(rel, "."), st, nil); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	return w.walk(path, rel, st)
}

func skipped(err error) error {
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func (w walker) walk(dir, rel string, own *unix.Stat_t) error {
	names, states, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return w.visit(dir, cmp.Or(rel, "."), own, err)
	}
	for i, name := range names {
		path, below := dir+"/"+name, name
		if rel != "" {
			below = rel + "/" + name
		}
		st := &states[i]
		if st.Mode == 0 {
			continue // it disappeared
		}
		if err := w.entry(path, below, st); err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

// list returns the sorted names of a directory's entries, and the states of the entries. The mode of an entry that
// disappeared is 0.
func list(dir string) ([]string, []unix.Stat_t, error) {
	f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	states := make([]unix.Stat_t, len(names))
	for i, name := range names {
		err := unix.Fstatat(int(f.Fd()), name, &states[i], unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, nil, err
		}
	}
	return names, states, nil
}

// Opened is a tree of this user in which all directories can be entered. See [OpenOwn].
type Opened struct {
	modes    map[string]uint32
	restores map[string]func(reset bool)
}

// OpenOwn makes all directories of a tree usable that a command has closed for their owner. The caller must call Close,
// which restores their modes.
func OpenOwn(top string) (*Opened, error) {
	o := &Opened{modes: make(map[string]uint32), restores: make(map[string]func(bool))}
	err := WalkOwn(top, 0o700, func(path, rel string, st *unix.Stat_t, err error) error {
		if !LacksOwner(st, 0o500) {
			return err
		}
		fd, openErr := unix.Open(path, OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if openErr != nil {
			return errors.Join(err, openErr)
		}
		o.modes[rel] = uint32(st.Mode) //nolint:unconvert // not all systems have 32 bits here
		o.restores[rel] = func(reset bool) {
			if reset {
				_ = unix.Chmod(Descriptor(fd), o.modes[rel]&0o7777)
			}
			_ = unix.Close(fd)
		}
		return err
	})
	for _, rel := range slices.Sorted(maps.Keys(o.modes)) { // a directory precedes those in it
		if fd, err := unix.Open(top+"/"+rel, OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			_ = Permit(fd, 0o700)
			_ = unix.Close(fd)
		}
	}
	return o, err
}

// Mode returns the mode that a directory had before [OpenOwn], or its mode in st.
func (o *Opened) Mode(rel string, st uint32) uint32 {
	if mode, opened := o.modes[rel]; opened && st&unix.S_IFMT == unix.S_IFDIR {
		return mode
	}
	return st
}

// Keep lets a directory keep its present mode.
func (o *Opened) Keep(rel string) { o.settle(rel, false) }

// Restore restores the mode of a directory.
func (o *Opened) Restore(rel string) { o.settle(rel, true) }

func (o *Opened) settle(rel string, reset bool) {
	if f := o.restores[rel]; f != nil {
		f(reset)
		delete(o.modes, rel)
		delete(o.restores, rel)
	}
}

// Close restores the modes of the remaining directories.
func (o *Opened) Close() {
	for rel := range o.restores {
		o.Restore(rel)
	}
}

// OpenAbove makes the directories above some paths of a tree usable for this user, their owner. The returned function
// restores their modes.
func (t *Tree) OpenAbove(paths []string) (restore func()) {
	var undo []func()
	seen := map[string]bool{".": true}
	var open func(dir string)
	open = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		open(filepath.Dir(dir)) // the first, because the others are reached through it
		if st, err := t.Stat(dir); err != nil || !LacksOwner(&st, 0o500) {
			return
		}
		if fd, err := t.OpenDirectory(dir); err == nil {
			reset := Permit(fd, 0o500)
			undo = append(undo, func() {
				reset()
				_ = unix.Close(fd)
			})
		}
	}
	for _, path := range paths {
		open(filepath.Dir(path))
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
