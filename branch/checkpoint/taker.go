package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitignore"
	"toolhost.dev/branch/internal/killpoint"
)

// taker reads a layer for a checkpoint.
type taker struct {
	s       *Set
	c       *Checkpoint
	rules   Rules
	last    map[string]*Entry
	entries []Entry
	linked  map[uint64]string // names of stored contents by inode, for files with several names
	ignore  *gitignore.Tree   // nil if everything is stored
	stored  int64             // size of the newly stored contents, in bytes
	made    []string
	same    bool // whether nothing changed since the last checkpoint
	dry     bool // true if nothing may be stored
	// known is the number of entries that are also in the last checkpoint. If grown is true, this checkpoint leaves out
	// a path that was not left out before.
	known int
	grown bool
	room  room
	unit  string // ignored directory that is currently being stored, with a final slash
}

func (s *Set) newTaker(c *Checkpoint, last []Entry, rules Rules) *taker {
	t := &taker{
		s: s, c: c, rules: rules, last: make(map[string]*Entry, len(last)), linked: make(map[uint64]string), same: true,
	}
	for i := range last {
		t.last[last[i].Path] = &last[i]
	}
	if _, repository := s.view().Find(".git"); repository && rules.SkipIgnored {
		t.ignore, t.room = s.view().Ignored(), rules.room()
	}
	return t
}

// take walks the layer, and stores the contents that the last checkpoint does not contain. It returns the entries.
func (t *taker) take() ([]Entry, error) {
	err := filetree.WalkOwn(t.s.Layer, 0o500, func(path, rel string, st *unix.Stat_t, err error) error {
		if err != nil {
			return err
		}
		return t.add(path, rel, st)
	})
	t.same = t.same && t.known == len(t.last)
	return t.entries, err
}

func (t *taker) add(path, rel string, st *unix.Stat_t) error {
	kind := st.Mode & unix.S_IFMT
	switch {
	case kind == unix.S_IFSOCK:
		return nil // skip sockets, because after a restore nobody would listen on them
	case t.leavesOut(path, rel, st):
		return t.leaveOut(rel, st)
	case kind == unix.S_IFREG:
		t.c.Files++
		t.c.Bytes += st.Size
	}
	old := t.last[rel]
	if old != nil {
		t.known++
	}
	if old != nil && !old.LeftOut && old.unchanged(st) {
		t.entries = append(t.entries, *old)
		return nil
	}
	e := *entryOf(rel, st)
	e.Attributes = filetree.WithMarks(path)
	if kind != unix.S_IFDIR || old == nil || !e.sameDirectory(old) {
		t.same = false
	}
	var err error
	switch kind {
	case unix.S_IFLNK:
		e.Target, err = os.Readlink(path)
	case unix.S_IFREG:
		if !t.dry {
			e.Object, err = t.keep(path, st)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	t.entries = append(t.entries, e)
	return err
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
	killpoint.Pass()
	if err := filetree.CopyFile(path, t.s.object(name)); err != nil {
		return "", err
	}
	if st.Nlink > 1 {
		t.linked[st.Ino] = name
	}
	return name, nil
}

// drop removes the contents that were stored for a checkpoint that failed.
func (t *taker) drop() {
	for _, name := range t.made {
		_ = os.Remove(t.s.object(name)) // ignore the error: the next checkpoint removes it
	}
}
