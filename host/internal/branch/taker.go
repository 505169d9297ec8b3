package branch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/gitignore"
)

// taker reads a layer for a checkpoint.
type taker struct {
	b       *Branch
	c       *Checkpoint
	rules   CheckpointRules
	last    map[string]*entry
	entries []entry
	linked  map[uint64]string // stored contents by inode, for files with several names
	ignore  *gitignore.Tree   // nil if everything is stored
	stored  int64             // bytes that are stored new
	made    []string
	same    bool // whether nothing changed since the last checkpoint
}

func (b *Branch) newTaker(c *Checkpoint, last []entry, rules CheckpointRules) *taker {
	t := &taker{b: b, c: c, rules: rules, last: make(map[string]*entry, len(last)), linked: make(map[uint64]string), same: true}
	for i := range last {
		t.last[last[i].Path] = &last[i]
	}
	if _, repository := b.after().find(".git"); repository && rules.SkipIgnored {
		t.ignore = b.ignored()
	}
	return t
}

// ignored returns what git ignores in the branch.
func (b *Branch) ignored() *gitignore.Tree {
	v := b.after()
	return &gitignore.Tree{Read: func(path string) ([]byte, error) {
		// Nearly no directory has such a file, so first look whether one of the two trees can have it.
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(v.layer, path), &st) != nil && unix.Lstat(filepath.Join(v.base, path), &st) != nil {
			return nil, fs.ErrNotExist
		}
		text, ok := v.text(path, "file")
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}}
}

// take stores the contents that the last checkpoint does not have.
func (t *taker) take() ([]entry, error) {
	stale, _ := filepath.Glob(t.b.object(fmt.Sprintf("%d-*", t.c.Number))) // of a process that was killed
	for _, path := range stale {
		_ = os.Remove(path)
	}
	err := filepath.WalkDir(t.b.Layer(), func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); errors.Is(err, fs.ErrNotExist) {
			return nil // a running process removed it
		}
		if err != nil {
			return err
		}
		return t.add(path, &st)
	})
	t.same = t.same && len(t.entries) == len(t.last)
	return t.entries, err
}

func (t *taker) add(path string, st *unix.Stat_t) error {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, t.b.Layer()), "/")
	kind := st.Mode & unix.S_IFMT
	if rel == "" {
		rel = "."
	}
	switch {
	case kind == unix.S_IFSOCK:
		return nil // nobody listens on it any more
	case t.ignore != nil && rel != "." && !isWhiteout(st) && t.ignore.Ignored(rel, kind == unix.S_IFDIR):
		t.c.Ignored++
		if kind == unix.S_IFDIR {
			return fs.SkipDir
		}
		return nil
	case kind == unix.S_IFREG:
		t.c.Files++
		t.c.Bytes += st.Size
	}
	if old := t.last[rel]; old != nil && old.unchanged(st) {
		t.entries = append(t.entries, *old)
		return nil
	}
	e := entry{Path: rel, Mode: uint32(st.Mode), Uid: st.Uid, Gid: st.Gid, Size: st.Size, Inode: st.Ino, Ctime: st.Ctim.Nano(), Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano(), Attributes: withMarks(path)} //nolint:unconvert // not all systems have 32 bits here
	if old := t.last[rel]; kind != unix.S_IFDIR || old == nil || !e.sameDirectory(old) {
		t.same = false
	}
	var err error
	switch kind {
	case unix.S_IFLNK:
		e.Target, err = os.Readlink(path)
	case unix.S_IFREG:
		e.Object, err = t.keep(path, st)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	t.entries = append(t.entries, e)
	return err
}

// sameDirectory compares two entries of a directory. The kernel changes the times of a directory and the marks in it when it
// only reads.
func (e *entry) sameDirectory(old *entry) bool {
	own := func(all map[string][]byte) map[string][]byte {
		out := maps.Clone(all)
		maps.DeleteFunc(out, func(name string, _ []byte) bool { return strings.HasPrefix(name, markPrefix) && name != opaqueMark })
		return out
	}
	return e.Mode == old.Mode && e.Uid == old.Uid && e.Gid == old.Gid && maps.EqualFunc(own(e.Attributes), own(old.Attributes), bytes.Equal)
}

// keep stores the content of a file and returns its name.
func (t *taker) keep(path string, st *unix.Stat_t) (string, error) {
	if name := t.linked[st.Ino]; name != "" {
		return name, nil
	}
	if t.stored += st.Size; t.rules.Bytes > 0 && t.stored > t.rules.Bytes {
		return "", &NoRoomError{Limit: t.rules.Bytes}
	}
	name := fmt.Sprintf("%d-%d", t.c.Number, len(t.made))
	t.made = append(t.made, name)
	killed()
	if err := copyFile(path, t.b.object(name)); err != nil {
		return "", err
	}
	if st.Nlink > 1 {
		t.linked[st.Ino] = name
	}
	return name, nil
}

// drop removes the contents that were stored for a checkpoint that was not made.
func (t *taker) drop() {
	for _, name := range t.made {
		_ = os.Remove(t.b.object(name)) // ignore the error: the next checkpoint removes it
	}
}
