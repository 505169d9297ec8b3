package branch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Op is the effect of a layer on a path.
type Op string

// The operations. A replacement changes the type of a path, or replaces a whole directory. OpMetadata changes only the
// mode, the owner or the attributes of a directory.
const (
	OpCreate   Op = "create"
	OpModify   Op = "modify"
	OpDelete   Op = "delete"
	OpReplace  Op = "replace"
	OpMetadata Op = "metadata"
)

// Change is what a layer changes at one path.
type Change struct {
	// Path is relative to the workspace.
	Path string `json:"path"`
	Op   Op     `json:"op"`
	// Was and Is are the types of the path before and after: "file", "directory", "link" or "other". Empty means that the
	// path does not exist.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
	// Mode and OldMode are the permissions of the path, if it exists.
	Mode    uint32 `json:"mode,omitempty"`
	OldMode uint32 `json:"old_mode,omitempty"`
	// Owner and OldOwner are the user and the group of a directory whose metadata changed.
	Owner    [2]uint32 `json:"owner,omitzero"`
	OldOwner [2]uint32 `json:"old_owner,omitzero"`
	// Size and OldSize are the sizes of files, in bytes.
	Size    int64 `json:"size,omitempty"`
	OldSize int64 `json:"old_size,omitempty"`
	// Entries counts what is below a whole directory.
	Entries int `json:"entries,omitempty"`
	// WasHardLink means that the file had other names, which keep the old content.
	WasHardLink bool `json:"was_hard_link,omitempty"`
	// Conflict is the reason why the change cannot be applied without a decision. Empty means that it can be.
	Conflict string `json:"conflict,omitempty"`
	// Merge means that the workspace changed the file, too, and that an apply makes the changes of both in it.
	Merge bool `json:"merge,omitempty"`
	// Commit is the ref with a commit that has the change. An apply saves the commit, and git merge makes the change.
	Commit string `json:"commit,omitempty"`
	// Waits is the reason why an apply leaves the change in the branch until a person has merged commits.
	Waits string `json:"waits,omitempty"`
	// Never is the reason why the change is never applied.
	Never string `json:"never,omitempty"`

	opaque bool
	inode  uint64 // of the layer's content; 0 if the layer does not have the path
	old    stampOf
	// made is the content that the base gets in place of the layer's.
	made *string
	// drop means that the layer's content is dropped, because it is no change of a person.
	drop bool
	// contested means that the base changed the path after the branch began.
	contested bool
	// repo is the directory of git with a commit that has the change. The commit is saved, so the layer's content is dropped.
	repo string
}

// stampOf identifies a state of a file of the base. It has no ctime, because a rename changes it.
type stampOf struct {
	Inode uint64 `json:"inode,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"`
	Mode  uint32 `json:"mode,omitempty"`
}

func stampFrom(st *unix.Stat_t) stampOf {
	out := stampOf{Inode: st.Ino, Mtime: st.Mtim.Nano(), Mode: uint32(st.Mode)} //nolint:unconvert // not all systems have 32 bits here
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		out.Size = st.Size
	}
	return out
}

// walker collects the changes of a layer.
type walker struct {
	b           *Branch
	base, upper string
	out         []Change
	ancestors   map[string]*ancestor // nil until it is read
	repos       []*gitState
	unite       []string
	// exact means that nothing is merged, because a person decides about exactly what was shown.
	exact bool
}

// Changes lists everything that the layer changes, sorted by path. A new directory is one change. The time depends on the
// layer and not on the base.
func (b *Branch) Changes() ([]Change, error) {
	all, err := b.survey()
	if err != nil {
		return nil, err
	}
	all.close()
	return slices.DeleteFunc(all.changes, func(c Change) bool { return c.drop }), nil
}

// survey is what an apply needs to know about a layer.
type survey struct {
	// changes includes what is dropped.
	changes []Change
	repos   []*gitState
	// unite lists directories of the layer that hide a directory which the base got later.
	unite []string
}

func (s *survey) close() {
	for _, g := range s.repos {
		if g.objects != nil {
			g.objects.close()
		}
	}
}

// survey compares the layer with the base. The caller must close the result.
func (b *Branch) survey() (*survey, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.Of != "" {
		of, err := b.parent()
		if err != nil {
			return nil, err
		}
		changes, err := compare(of.after(), b.after())
		return &survey{changes: changes}, err
	}
	w := &walker{b: b, base: b.Base, upper: b.Layer(), exact: b.IsPreview()}
	err := w.attributes(".")
	if err == nil {
		err = w.walk(".")
	}
	all := &survey{repos: w.repos, unite: w.unite}
	if err != nil {
		all.close()
		return nil, fmt.Errorf("the changes of the branch %s cannot be read: %w", b.Name, err)
	}
	for _, g := range w.repos {
		g.markCommitted(w.out)
	}
	slices.SortStableFunc(w.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	all.changes = w.out
	return all, nil
}

// since returns the time after which a change of a path of the base is a change during the branch.
func (b *Branch) since(path string) int64 {
	out := b.Since
	for at := path; ; at = filepath.Dir(at) {
		out = max(out, b.Renewed[at])
		if at == "." || at == "/" {
			return out
		}
	}
}

// itself returns the key in Branch.Renewed for a directory without what is below it.
func itself(dir string) string { return dir + "/." }

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

func typeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "link"
	}
	return "other"
}

func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// entry adds the changes at a path of the layer.
func (w *walker) entry(path string) error {
	upper, base := filepath.Join(w.upper, path), filepath.Join(w.base, path)
	var up, lo unix.Stat_t
	if err := unix.Lstat(upper, &up); err != nil {
		return err
	}
	err := unix.Lstat(base, &lo)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	there := err == nil
	c := Change{Path: path, inode: up.Ino, Is: typeOf(uint32(up.Mode)), Mode: uint32(up.Mode) & 0o7777, Size: up.Size} //nolint:unconvert // as above
	if there {
		c.old = stampFrom(&lo)
		c.Was, c.OldMode, c.OldSize, c.WasHardLink = typeOf(uint32(lo.Mode)), uint32(lo.Mode)&0o7777, lo.Size, lo.Nlink > 1 && lo.Mode&unix.S_IFMT == unix.S_IFREG //nolint:unconvert // as above
	}
	switch {
	case isWhiteout(&up):
		if !there {
			return nil // deleted in both
		}
		c.Op, c.Is, c.Mode, c.Size = OpDelete, "", 0, 0
	case c.Is == "directory" && c.Was == "directory":
		if c.opaque = w.replaces(path); !c.opaque {
			return w.directory(path)
		}
		c.Op = OpReplace
	case !there:
		c.Op, c.opaque = OpCreate, c.Is == "directory" && isOpaque(upper)
	case c.Is != c.Was:
		c.Op = OpReplace
	default:
		equal, err := same(base, upper, &lo, &up)
		if err != nil || equal {
			return err
		}
		c.Op = OpModify
	}
	switch {
	case c.Is == "directory":
		c.Entries = count(upper)
	case c.Was == "directory":
		c.Entries = count(base)
	}
	w.judge(&c, &lo)
	c.contested = c.Conflict != ""
	w.reconcile(&c, &lo, &up)
	w.out = append(w.out, c)
	return nil
}

// replaces reports whether a directory of the layer replaces the directory of the base.
func (w *walker) replaces(path string) bool {
	if !isOpaque(filepath.Join(w.upper, path)) {
		return false
	}
	if !w.exact && bornAfter(filepath.Join(w.base, path), w.b.since(path)) {
		w.unite = append(w.unite, path) // the branch did not delete what is in the directory, because it was not there
		return false
	}
	return true
}

// directory adds the changes in a directory that both the layer and the base have.
func (w *walker) directory(path string) error {
	if err := w.attributes(path); err != nil {
		return err
	}
	if filepath.Base(path) == ".git" {
		return w.repository(path)
	}
	return w.walk(path)
}

// attributes adds a change if a directory of the layer differs from that of the base in more than its entries.
func (w *walker) attributes(path string) error {
	upper, base := filepath.Join(w.upper, path), filepath.Join(w.base, path)
	var up, lo unix.Stat_t
	if err := errors.Join(unix.Lstat(upper, &up), unix.Lstat(base, &lo)); err != nil {
		return err
	}
	if up.Mode == lo.Mode && sameOwner(&up, &lo) && equalAttributes(upper, base) {
		return nil
	}
	c := Change{Path: path, Op: OpMetadata, Was: "directory", Is: "directory", Mode: uint32(up.Mode) & 0o7777, OldMode: uint32(lo.Mode) & 0o7777, inode: up.Ino, old: stampFrom(&lo), Owner: [2]uint32{up.Uid, up.Gid}, OldOwner: [2]uint32{lo.Uid, lo.Gid}} //nolint:unconvert // as above
	w.judge(&c, &lo)
	w.out = append(w.out, c)
	return nil
}

// judge finds out whether a change conflicts with a change of the base, or is never applied.
func (w *walker) judge(c *Change, lo *unix.Stat_t) {
	if c.Never = never(c); c.Never != "" {
		return
	}
	if c.Op == OpModify && isIndex(c.Path) && sameIndex(filepath.Join(w.base, c.Path), filepath.Join(w.upper, c.Path)) {
		c.drop = true // git only refreshed it
		return
	}
	since := w.b.since(c.Path)
	base := filepath.Join(w.base, c.Path)
	switch c.Op {
	case OpCreate:
		// The base lacks the path. Either the branch created it, or the base deleted it. The mark of a file that came from
		// the base moves with a rename, so it is only a hint.
		if fromBase(filepath.Join(w.upper, c.Path)) && changedDirectory(filepath.Dir(base), since) {
			c.Conflict = "the workspace may have deleted what the branch changes"
		}
	case OpModify:
		if lo.Ctim.Nano() >= since {
			c.Conflict = "the workspace changed it, too"
		}
	case OpMetadata:
		if lo.Ctim.Nano() >= max(since, w.b.Renewed[itself(c.Path)]) {
			c.Conflict = "the workspace changed the directory, too, and its mode or its attributes differ"
		}
	case OpDelete, OpReplace:
		what := map[Op]string{OpDelete: "deletes", OpReplace: "replaces"}[c.Op]
		switch {
		case c.Was != "directory" && lo.Ctim.Nano() >= since:
			c.Conflict = "the workspace changed what the branch " + what
		case c.Was == "directory":
			if newer := newest(base, since, true); newer != "" {
				c.Conflict = fmt.Sprintf("the branch %s the directory, and the workspace changed %s in it", what, cmp.Or(relative(base, newer), "names"))
			}
		}
	}
}

func relative(base, path string) string {
	rel, err := filepath.Rel(base, path)
	if err != nil || rel == "." {
		return ""
	}
	return rel
}

// never returns the reason why a change must not be applied, or "".
func never(c *Change) string {
	if c.Is == "other" {
		return "it is a pipe, a socket or a device"
	}
	parts := strings.Split(c.Path, "/")
	i := slices.Index(parts, ".git")
	if i < 0 || i == len(parts)-1 {
		return ""
	}
	if strings.HasSuffix(c.Path, ".lock") && c.Is == "file" && parts[i+1] != "objects" {
		return "it is a lock of git, which a killed command left"
	}
	for _, name := range parts[i+1:] {
		if name == "hooks" || name == "config" || name == "config.worktree" || name == "commondir" {
			if parts[i+1] == "refs" || parts[i+1] == "logs" || parts[i+1] == "objects" {
				continue // the name of a branch of git
			}
			return "git would run programs that it names"
		}
	}
	return ""
}

// The marks of the overlay file system.
const (
	opaqueMark = "user.overlay.opaque"
	originMark = "user.overlay.origin"
	markPrefix = "user.overlay."
)

// isOpaque reports whether a directory of a layer hides the directory of the base.
func isOpaque(dir string) bool {
	n, err := unix.Lgetxattr(dir, opaqueMark, nil)
	return err == nil && n > 0
}

// fromBase reports whether a file of the layer began as a copy from the base. The mark has no value where the file system
// gives ordinary users no file handles.
func fromBase(path string) bool {
	_, err := unix.Lgetxattr(path, originMark, nil)
	return err == nil
}

// changedDirectory reports whether entries of a directory of the base were added or removed since a time.
func changedDirectory(dir string, since int64) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) != nil || st.Ctim.Nano() >= since
}

// newest returns a path in a directory that changed since a time, or "". If top is false, the directory itself does not
// count.
func newest(dir string, since int64, top bool) (found string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if (top || path != dir) && (err != nil || unix.Lstat(path, &st) != nil || st.Ctim.Nano() >= since) {
			found = path // what cannot be read counts as changed
			return fs.SkipAll
		}
		return nil
	})
	return found
}

func count(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(string, fs.DirEntry, error) error {
		n++
		return nil
	})
	return n - 1
}
