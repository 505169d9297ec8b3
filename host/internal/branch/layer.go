package branch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	// Never is the reason why the change is never applied.
	Never string `json:"never,omitempty"`

	opaque bool
	inode  uint64 // of the new content
	old    stampOf
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
}

// Changes lists everything that the layer changes, sorted by path. A new directory is one change. The time depends on the
// layer and not on the base.
func (b *Branch) Changes() ([]Change, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.Of != "" {
		of, err := b.parent()
		if err != nil {
			return nil, err
		}
		return compare(of.after(), b.after())
	}
	w := &walker{b: b, base: b.Base, upper: b.Layer()}
	err := w.attributes(".")
	if err == nil {
		err = w.walk(".")
	}
	if err != nil {
		return nil, fmt.Errorf("the changes of the branch %s cannot be read: %w", b.Name, err)
	}
	slices.SortFunc(w.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return w.out, nil
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
		c.opaque = isOpaque(upper)
		if !c.opaque {
			if err := w.attributes(path); err != nil {
				return err
			}
			return w.walk(path)
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
	w.out = append(w.out, c)
	return nil
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
	if c.Op == OpModify && strings.HasSuffix("/"+c.Path, "/.git/index") && sameIndex(filepath.Join(w.base, c.Path), filepath.Join(w.upper, c.Path)) {
		c.Never = "git only refreshed it"
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

// attributesOf returns the extended attributes of a path without the marks of the overlay.
func attributesOf(path string) map[string][]byte {
	names := make([]byte, 1024)
	size, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ERANGE) {
		if size, err = unix.Llistxattr(path, nil); err == nil {
			names = make([]byte, size+256)
			size, err = unix.Llistxattr(path, names)
		}
	}
	if err != nil || size == 0 {
		return nil
	}
	var out map[string][]byte
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		if name == "" || strings.HasPrefix(name, markPrefix) {
			continue
		}
		value := make([]byte, 64<<10)
		if n, err := unix.Lgetxattr(path, name, value); err == nil {
			if out == nil {
				out = make(map[string][]byte)
			}
			out[name] = value[:n]
		}
	}
	return out
}

// sameOwner compares the owners of two files. Only root can change owners, and the copy of another user's file always
// belongs to the user.
func sameOwner(a, b *unix.Stat_t) bool {
	return os.Geteuid() != 0 || a.Uid == b.Uid && a.Gid == b.Gid
}

func equalAttributes(a, b string) bool {
	return maps.EqualFunc(attributesOf(a), attributesOf(b), bytes.Equal)
}

// same reports whether two entries of the same type are equal in mode, owner, attributes and content.
func same(a, b string, sa, sb *unix.Stat_t) (bool, error) {
	if sa.Mode != sb.Mode || !sameOwner(sa, sb) || !equalAttributes(a, b) {
		return false, nil
	}
	switch sa.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		x, err := os.Readlink(a)
		y, other := os.Readlink(b)
		return x == y, errors.Join(err, other)
	case unix.S_IFREG:
		if sa.Size != sb.Size {
			return false, nil
		}
		return sameContent(a, b)
	}
	return true, nil
}

func sameContent(a, b string) (bool, error) {
	f, err := openRegular(a)
	if err != nil {
		return false, nil // what cannot be read counts as different
	}
	defer f.Close() //nolint:errcheck // only read
	g, err := openRegular(b)
	if err != nil {
		return false, nil
	}
	defer g.Close() //nolint:errcheck // only read
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(f, x)
		m, other := io.ReadFull(g, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, e := range []error{err, other} {
			if e != nil && !errors.Is(e, io.EOF) && !errors.Is(e, io.ErrUnexpectedEOF) {
				return false, e
			}
		}
		if err != nil || other != nil {
			return (err == nil) == (other == nil), nil
		}
	}
}

// openRegular opens a file for reading. It does not follow a link and does not block on a pipe.
func openRegular(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = unix.EFBIG
	}
	return text, err
}
