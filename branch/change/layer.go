// Package change determines what a layer changes in its base.
//
// [Layer.Survey] compares the two directories, finds conflicts with later changes of the base, and merges texts and the
// state of git. [Diff] and [ShortDiff] show changes to people. While sessions work in the layer, [Ancestry] records the
// original states of files for merges.
//
// The package reads the base and the layer, and changes neither of them.
package change

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Op is the effect of a layer on a path.
type Op string

// These are the operations. OpReplace changes the type of a path, or replaces a whole directory. OpMetadata changes
// only the mode, the owner or the attributes of a directory.
const (
	OpCreate   Op = "create"
	OpModify   Op = "modify"
	OpDelete   Op = "delete"
	OpReplace  Op = "replace"
	OpMetadata Op = "metadata"
)

// Change is the change that a layer makes at one path.
type Change struct {
	// Path is relative to the workspace.
	Path string `json:"path"`
	Op   Op     `json:"op"`
	// Was and Is are the types of the path before and after: "file", "directory", "link" or "other". Empty means that
	// the path does not exist.
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
	// Entries is the number of entries below a directory that is created, deleted or replaced as a whole.
	Entries int `json:"entries,omitempty"`
	// WasHardLink means that the file of the base has other names. These names keep the old content.
	WasHardLink bool `json:"was_hard_link,omitempty"`
	// Conflict is the reason why the change cannot be applied without a decision. Empty means that no decision is
	// needed.
	Conflict string `json:"conflict,omitempty"`
	// Merge means that the workspace also changed the file. An apply then combines both changes.
	Merge bool `json:"merge,omitempty"`
	// Commit is the ref under which an apply saves a commit that contains the change. "git merge" makes the change.
	Commit string `json:"commit,omitempty"`
	// Waits is the reason why an apply leaves the change in the branch until a person has merged commits.
	Waits string `json:"waits,omitempty"`
	// Never is the reason why the change is never applied.
	Never string `json:"never,omitempty"`

	// Hides means that a directory of the layer hides the directory of the base.
	Hides bool `json:"-"`
	// Inode is the inode of the layer's content, or 0 if the layer does not contain the path. Before identifies the
	// state of the path in the base.
	Inode  uint64 `json:"-"`
	Before Stamp  `json:"-"`
	// Content is a new content for the base that replaces both versions. Nil means that the base gets the layer's
	// content.
	Content *string `json:"-"`
	// Dropped means that an apply removes the path from the layer and does not change the base.
	Dropped bool `json:"-"`
	// BothChanged means that the base changed the path after the branch began.
	BothChanged bool `json:"-"`
	// Attributes are the attributes that a directory gets by [OpMetadata].
	Attributes map[string][]byte `json:"-"`
	// Repository is the directory of git that gets the commit with the change. The layer's content is then dropped.
	Repository string `json:"-"`
}

// Stamp identifies a state of a file of the base. It does not contain the ctime, because a rename changes the ctime.
type Stamp struct {
	Inode uint64 `json:"inode,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"`
	Mode  uint32 `json:"mode,omitempty"`
}

// StampOf returns the state of a file.
func StampOf(st *unix.Stat_t) Stamp {
	out := Stamp{Inode: st.Ino, Mtime: st.Mtim.Nano(), Mode: uint32(st.Mode)} //nolint:unconvert // not all systems have 32 bits here
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		out.Size = st.Size
	}
	return out
}

// Layer describes a layer and its beginning over a base.
type Layer struct {
	// Name is the name of the branch. Messages and the names of refs contain it.
	Name string
	// Base is the directory below the layer, and Upper is the directory with the changes of the layer.
	Base, Upper string
	// State is the directory of records about the layer. It is outside of Base and Upper.
	State string
	// Since is the time of the base's file system at which the layer began, in nanoseconds. Renewed contains later
	// times for single paths and everything below them. See [Itself].
	Since   int64
	Renewed map[string]int64
	// Copy is nil unless the layer was made from a copy of the base.
	Copy Versions
	// Blind means that the times of the base do not show what changed, because the clock was set back. Everything then
	// counts as changed.
	Blind bool
	// Exact forbids merges, because a person decides about exactly the changes that were shown.
	Exact bool
}

// Versions describes which versions of the base's files a copy of the base contains.
type Versions interface {
	// Had reports whether the copy contains a version of a path from the base.
	Had(path string) bool
	// Touched reports whether the base changed a path after the path was copied. TouchedBelow returns a path in a
	// directory that the base changed in this way, or "".
	Touched(path string) bool
	TouchedBelow(dir string) string
	// LeavesOut reports whether a path of the base is never copied.
	LeavesOut(path string, dir bool) bool
}

func (l *Layer) view() View { return View{Base: l.Base, Upper: l.Upper} }

// Touched reports whether the base changed a path after the branch began to see it.
func (l *Layer) Touched(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(l.Base, path), &st) == nil && l.touched(path, &st, l.since(path))
}

// touched is Touched for a path with a known state.
func (l *Layer) touched(path string, st *unix.Stat_t, since int64) bool {
	if l.Copy != nil {
		return l.Copy.Touched(path)
	}
	return l.Blind || st.Ctim.Nano() >= since
}

// touchedBelow reports whether the base changed a path in a directory since the branch began. It returns one such path,
// relative to the directory.
func (l *Layer) touchedBelow(dir string) (path string, touched bool) {
	if l.Copy != nil {
		found := l.Copy.TouchedBelow(dir)
		return strings.TrimPrefix(strings.TrimPrefix(found, dir), "/"), found != ""
	}
	at := filepath.Join(l.Base, dir)
	if l.Blind {
		return "", true
	}
	found := Newest(at, l.since(dir), true)
	return relative(at, found), found != ""
}

// Survey is the information about a layer that an apply needs.
type Survey struct {
	// Changes lists all changes, also dropped ones, sorted by path.
	Changes []Change
	// Repos lists the directories of git that both the base and the layer changed.
	Repos []*Repository
	// Unite lists directories of the layer that hide a directory of the base, although the base's directory was created
	// after the branch began.
	Unite []string
}

// Close removes the temporary repositories of the survey.
func (s *Survey) Close() {
	for _, g := range s.Repos {
		if g.objects != nil {
			g.objects.Close()
		}
	}
}

// KeepAncestors records the committed states of files that the branch changed later. Call it after an apply.
func (s *Survey) KeepAncestors() (err error) {
	for _, g := range s.Repos {
		err = errors.Join(err, g.keepAncestors())
	}
	return err
}

// Survey compares the layer with the base. The caller must close the result.
func (l *Layer) Survey() (*Survey, error) {
	w := &walker{l: l, base: l.Base, upper: l.Upper, exact: l.Exact}
	err := w.open()
	defer w.close()
	if err == nil {
		err = w.root()
	}
	all := &Survey{Repos: w.repos, Unite: w.unite}
	if err != nil {
		all.Close()
		return nil, fmt.Errorf("the changes of the branch %s cannot be read: %w", l.Name, err)
	}
	for _, g := range w.repos {
		g.markCommitted(w.out)
	}
	slices.SortStableFunc(w.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	all.Changes = w.out
	return all, nil
}

// MakeLayer creates an empty layer over a base. Its directory has the owner, the mode and the attributes of the base.
// Otherwise, the layer would seem to change them, and an apply would do that.
func MakeLayer(dir, base string) error {
	var st unix.Stat_t
	if err := unix.Stat(base, &st); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_ = os.Lchown(dir, int(st.Uid), int(st.Gid)) // only root can give directories away; others own their base
	return filetree.Like(dir, base+"/.", &st)
}

// since returns the time from which on a change of a base path counts as made during the branch.
func (l *Layer) since(path string) int64 {
	out := l.Since
	for at := path; ; at = filepath.Dir(at) {
		out = max(out, l.Renewed[at])
		if at == "." || at == "/" {
			return out
		}
	}
}

// Itself returns the key in Branch.Renewed that concerns a directory without its entries.
func Itself(dir string) string { return dir + "/." }

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

// equalTrees reports whether two directories contain the same names with equal files.
func equalTrees(a, b string) bool {
	names, err := filetree.Names(a)
	others, otherErr := filetree.Names(b)
	if err != nil || otherErr != nil {
		return false
	}
	slices.Sort(names)
	slices.Sort(others)
	if !slices.Equal(names, others) {
		return false
	}
	for _, name := range names {
		x, y := filepath.Join(a, name), filepath.Join(b, name)
		var sx, sy unix.Stat_t
		if unix.Lstat(x, &sx) != nil || unix.Lstat(y, &sy) != nil || sx.Mode&unix.S_IFMT != sy.Mode&unix.S_IFMT {
			return false
		}
		if equal, err := filetree.Same(x, y, &sx, &sy); err != nil || !equal ||
			sx.Mode&unix.S_IFMT == unix.S_IFDIR && !equalTrees(x, y) {
			return false
		}
	}
	return true
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
				continue // it is only a part of the name of a git branch
			}
			return "git would run programs that it names"
		}
	}
	return ""
}

// fromBase reports whether the kernel created a file of the layer as a copy of a base file. The kernel marks such a
// file. The mark is empty if the file system does not permit ordinary users to use file handles.
func fromBase(path string) bool {
	_, err := unix.Lgetxattr(path, filetree.OriginMark, nil)
	return err == nil
}

// changedDirectory reports whether entries were added to a directory of the base or removed from it since a time.
func changedDirectory(dir string, since int64) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) != nil || st.Ctim.Nano() >= since
}

// Newest returns a path in a directory that changed since a time, or "". If top is false, the directory itself does not
// count.
func Newest(dir string, since int64, top bool) (found string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if (top || path != dir) && (err != nil || unix.Lstat(path, &st) != nil || st.Ctim.Nano() >= since) {
			found = path // an unreadable path counts as changed
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// count returns the number of entries below a directory. See [filetree.WalkOwn] for the argument "need".
func count(dir string, need uint32) (n int) {
	_ = filetree.WalkOwn(dir, need, func(_, rel string, _ *unix.Stat_t, err error) error {
		if rel != "." && err == nil {
			n++
		}
		return nil
	})
	return n
}
