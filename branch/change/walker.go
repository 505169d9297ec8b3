package change

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
)

// walker collects the changes of a layer.
type walker struct {
	l           *Layer
	base, upper string
	// below and above are the trees of base and upper.
	below, above *filetree.Tree
	out          []Change
	ancestors    map[state]*ancestor // nil until it is read
	repos        []*Repository
	unite        []string
	// exact forbids merges. See [Layer.Exact].
	exact bool
}

func (w *walker) open() (err error) {
	if w.below, err = filetree.Open(w.base); err == nil {
		w.above, err = filetree.Open(w.upper)
	}
	return err
}

func (w *walker) close() {
	for _, t := range []*filetree.Tree{w.below, w.above} {
		if t != nil {
			t.Close()
		}
	}
}

// part returns a walker for a part of the same layer.
func (w *walker) part() *walker {
	return &walker{
		l: w.l, base: w.base, upper: w.upper, below: w.below, above: w.above, exact: w.exact, ancestors: w.ancestors,
	}
}

// root adds the changes in the whole layer.
func (w *walker) root() error {
	var up unix.Stat_t
	if err := unix.Lstat(w.upper, &up); err != nil {
		return err
	}
	defer w.enter(".", &up)()
	if err := w.attributes(".", &up); err != nil {
		return err
	}
	return w.walk(".")
}

// enter makes a directory of the layer readable that a command has closed for its owner. The returned function restores
// the mode.
func (w *walker) enter(dir string, up *unix.Stat_t) (restore func()) {
	if !filetree.LacksOwner(up, 0o500) {
		return func() {}
	}
	return filetree.PermitPath(filepath.Join(w.upper, dir), 0o500)
}

func (w *walker) walk(dir string) error {
	entries, err := os.ReadDir(filepath.Join(w.upper, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.entry(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// entry adds the changes at a path of the layer.
func (w *walker) entry(path string) error {
	upper, base := filepath.Join(w.upper, path), filepath.Join(w.base, path)
	up, err := w.above.Stat(path)
	if err != nil {
		return err
	}
	defer w.enter(path, &up)()
	lo, err := w.below.Stat(path)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	there := err == nil
	c := Change{Path: path, Inode: up.Ino, Is: typeOf(uint32(up.Mode)), Mode: uint32(up.Mode) & 0o7777, Size: up.Size} //nolint:unconvert // as above
	if there {
		c.Before = StampOf(&lo)
		c.Was, c.OldMode, c.OldSize, c.WasHardLink = typeOf(uint32(lo.Mode)), uint32(lo.Mode)&0o7777, lo.Size, lo.Nlink > 1 && lo.Mode&unix.S_IFMT == unix.S_IFREG //nolint:unconvert // as above
	}
	switch {
	case filetree.IsWhiteout(&up):
		if !there {
			return nil // both the branch and the base deleted the path
		}
		c.Op, c.Is, c.Mode, c.Size = OpDelete, "", 0, 0
	case c.Is == "directory" && c.Was == "directory":
		if c.Hides, err = w.replaces(path); err != nil {
			return err
		}
		if !c.Hides {
			return w.directory(path, &up)
		}
		c.Op = OpReplace
	case !there:
		c.Op = OpCreate
		if c.Is == "directory" {
			if c.Hides, err = filetree.IsOpaque(upper); err != nil {
				return err
			}
		}
	case c.Is != c.Was:
		c.Op = OpReplace
	default:
		equal, err := filetree.Same(base, upper, &lo, &up)
		if err != nil || equal {
			return err
		}
		c.Op = OpModify
		if lo.Size == up.Size { // then Same compared the contents, and the base can have changed meanwhile
			if now, err := w.below.Stat(path); err == nil {
				lo.Ctim = now.Ctim
			}
		}
	}
	c.Entries = entries(&c, upper, base)
	w.judge(&c, &lo)
	c.BothChanged = c.Conflict != ""
	w.reconcile(&c, &lo, &up)
	w.out = append(w.out, c)
	return nil
}

// entries counts the entries of a directory that a change adds or removes. For other changes it returns 0.
func entries(c *Change, upper, base string) int {
	switch {
	case c.Is == "directory":
		return count(upper, 0o500)
	case c.Was == "directory":
		return count(base, 0)
	}
	return 0
}

// replaces reports whether a directory of the layer replaces the directory of the base.
func (w *walker) replaces(path string) (bool, error) {
	if opaque, err := filetree.IsOpaque(filepath.Join(w.upper, path)); !opaque {
		return false, err
	}
	if equalTrees(filepath.Join(w.base, path), filepath.Join(w.upper, path)) {
		return false, nil // the branch deleted and then restored the directory
	}
	if !w.exact && !w.l.Blind && bornAfter(filepath.Join(w.base, path), w.l.since(path)) {
		w.unite = append(w.unite, path) // the base created the directory later, so the branch did not delete its entries
		return false, nil
	}
	return true, nil
}

// directory adds the changes in a directory that exists in the layer and in the base.
func (w *walker) directory(path string, up *unix.Stat_t) error {
	if err := w.attributes(path, up); err != nil {
		return err
	}
	if filepath.Base(path) == ".git" {
		return w.repository(path)
	}
	return w.walk(path)
}

// attributes adds a change if the mode, the owner or the attributes of a directory differ from those in the base. The
// argument "up" is the state of the directory of the layer.
func (w *walker) attributes(path string, up *unix.Stat_t) error {
	upper, base := filepath.Join(w.upper, path), filepath.Join(w.base, path)
	var lo unix.Stat_t
	if err := unix.Lstat(base, &lo); err != nil {
		return err
	}
	if up.Mode == lo.Mode && filetree.SameOwner(up, &lo) && filetree.EqualAttributes(upper, base) {
		return nil
	}
	c := Change{Path: path, Op: OpMetadata, Was: "directory", Is: "directory", Mode: uint32(up.Mode) & 0o7777, OldMode: uint32(lo.Mode) & 0o7777, Inode: up.Ino, Before: StampOf(&lo), Attributes: filetree.Attributes(upper), Owner: [2]uint32{up.Uid, up.Gid}, OldOwner: [2]uint32{lo.Uid, lo.Gid}} //nolint:unconvert // as above
	w.judge(&c, &lo)
	w.out = append(w.out, c)
	return nil
}

// judge determines whether a change conflicts with a change of the base, and whether it can ever be applied.
func (w *walker) judge(c *Change, lo *unix.Stat_t) {
	if c.Never = never(c); c.Never != "" {
		return
	}
	if w.l.Copy != nil && c.Was != "" && !w.l.Copy.Had(c.Path) && w.l.Copy.LeavesOut(c.Path, c.Was == "directory") {
		c.Never = "git ignores the path, so the copy did not contain the workspace's version of it"
		return
	}
	if c.Op == OpModify && gitstate.IsIndex(c.Path) &&
		gitstate.SameIndex(filepath.Join(w.base, c.Path), filepath.Join(w.upper, c.Path)) {
		c.Dropped = true // git only updated the file times in the index
		return
	}
	base := filepath.Join(w.base, c.Path)
	switch c.Op {
	case OpCreate:
		// The base lacks the path. Either the branch created it, or the base deleted it. A file from the base has a
		// mark, but the mark also moves with a rename. Therefore it is only a hint.
		if w.l.Copy != nil && w.l.Copy.Had(c.Path) || w.l.Copy == nil && fromBase(filepath.Join(w.upper, c.Path)) &&
			(w.l.Blind || changedDirectory(filepath.Dir(base), w.l.since(c.Path))) {
			c.Conflict = "the workspace may have deleted what the branch changes"
		}
	case OpModify:
		if w.l.touched(c.Path, lo, w.l.since(c.Path)) {
			c.Conflict = "the workspace changed it, too"
		}
	case OpMetadata:
		if w.l.Touched(c.Path) && (w.l.Copy != nil || w.l.Blind || lo.Ctim.Nano() >= w.l.Renewed[Itself(c.Path)]) {
			c.Conflict = "the workspace changed the directory, too, and its mode or its attributes differ"
		}
	case OpDelete, OpReplace:
		what := map[Op]string{OpDelete: "deletes", OpReplace: "replaces"}[c.Op]
		switch {
		case c.Was != "directory" && w.l.touched(c.Path, lo, w.l.since(c.Path)):
			c.Conflict = "the workspace changed what the branch " + what
		case c.Was == "directory":
			if newer, touched := w.l.touchedBelow(c.Path); touched {
				c.Conflict = fmt.Sprintf("the branch %s the directory, and the workspace changed %s in it", what, cmp.Or(newer, "names"))
			}
		}
	}
	if c.Conflict != "" && w.l.Blind {
		c.Conflict = "the clock of the machine was set back since the branch began, so it cannot be told whether the workspace changed it, too"
	}
}
