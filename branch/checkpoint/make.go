package checkpoint

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// Newest is the manifest of the newest checkpoint. The next checkpoint is compared with it.
type Newest struct {
	number  int
	entries []Entry
}

// maxThen limits [Checkpoint.Then].
const maxThen = 20

// Skip records that there is no checkpoint before a call.
func (s *Set) Skip(command string) {
	all, err := s.List()
	if err != nil || len(all) == 0 {
		return
	}
	if last := &all[len(all)-1]; last.Call != "" && !last.Undone && len(last.Then) < maxThen {
		last.Then = append(last.Then, command)
		_ = s.relabel(last) // ignore the error: the caller reports that the checkpoint is missing
	}
}

// Make makes a checkpoint of the layer, from which a restore can make the layer again. If the file system supports it,
// the checkpoint shares its data with the layer. [Set.Derived] returns the value "derived", which is stored with the
// checkpoint.
//
// If the same session made the last checkpoint before a call, and nothing has changed since then, that checkpoint is
// reused for the call of c. The layer must be up to date with the working copy.
func (s *Set) Make(c Checkpoint, rules Rules, derived any) (*Checkpoint, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, Dir)
	if err := os.MkdirAll(filepath.Join(dir, objectsDir), 0o700); err != nil {
		return nil, err
	}
	c.At = time.Now()
	if c.Number, err = nextNumber(dir); err != nil {
		return nil, err
	}
	var last []Entry
	if len(all) > 0 {
		if number := all[len(all)-1].Number; s.Newest.number == number {
			last = s.Newest.entries
		} else if last, err = s.Manifest(number); err != nil {
			last = nil // the new checkpoint then shares no contents with the damaged one
		}
	}
	if err := removeFresh(dir); err != nil {
		return nil, err
	}
	stale, _ := filepath.Glob(s.object(fmt.Sprintf("%d-*", c.Number))) // contents that a killed process left
	for _, path := range stale {
		_ = os.Remove(path)
	}
	t := s.newTaker(&c, last, rules)
	entries, err := t.take()
	killpoint.Pass()
	if n := len(all); err == nil && n > 0 && t.same && all[n-1].Call != "" && c.Call != "" &&
		all[n-1].Session == c.Session && !all[n-1].Undone {
		return s.rename(&c, &all[n-1], t)
	}
	if err == nil {
		c.Stored = t.stored
		if len(all) > 0 {
			if c.Stored += all[len(all)-1].Stored; all[len(all)-1].Stored == 0 {
				c.Stored = s.stored()
			}
		}
		err = s.store(&c, entries, derived)
	}
	if err == nil {
		err = s.thin(append(all, c), rules)
	}
	room := (*NoRoomError)(nil)
	switch {
	case err == nil:
		*s.Newest = Newest{c.Number, entries}
		return &c, nil
	case errors.As(err, &room):
		return nil, err
	}
	t.drop()
	return nil, fmt.Errorf("the checkpoint of the branch %s cannot be made: %w", s.Branch, err)
}

// nextNumber returns a number that no checkpoint has used, not even a damaged one.
func nextNumber(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	next := 1
	for _, e := range entries {
		if n, notNumber := strconv.Atoi(e.Name()); notNumber == nil {
			next = max(next, n+1)
		}
	}
	return next, err
}

// rename reuses the last checkpoint for another call, because nothing has changed since then.
func (s *Set) rename(c, last *Checkpoint, t *taker) (*Checkpoint, error) {
	c.Number, c.Stored = last.Number, last.Stored
	if t.grown {
		tmp := filepath.Join(s.path(c.Number), ".new-"+manifestFile)
		if err := writeManifest(tmp, t.entries); err != nil {
			return nil, err
		}
		if err := os.Rename(tmp, filepath.Join(s.path(c.Number), manifestFile)); err != nil {
			return nil, err
		}
		*s.Newest = Newest{c.Number, t.entries}
	}
	return c, s.relabel(c)
}

// removeFresh removes temporary files that a killed process left in a directory.
func removeFresh(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	for _, path := range left {
		err = errors.Join(err, filetree.RemoveAll(path))
	}
	return err
}

// store writes the description of a new checkpoint whose contents are already stored.
func (s *Set) store(c *Checkpoint, entries []Entry, derived any) error {
	dir := filepath.Join(s.Dir, Dir)
	fresh, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // it is gone after the rename below
	err = writeManifest(filepath.Join(fresh, manifestFile), entries)
	killpoint.Pass()
	err = errors.Join(err, writeJSON(filepath.Join(fresh, derivedFile), derived),
		writeJSON(filepath.Join(fresh, checkpointFile), c))
	if err == nil {
		err = os.Rename(fresh, s.path(c.Number))
	}
	killpoint.Pass()
	return err
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func writeManifest(path string, entries []Entry) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(entries), f.Close())
}

// relabel replaces the description of a checkpoint.
func (s *Set) relabel(c *Checkpoint) error {
	tmp := filepath.Join(s.path(c.Number), ".new")
	if err := writeJSON(tmp, c); err != nil {
		return err
	}
	killpoint.Pass()
	return os.Rename(tmp, filepath.Join(s.path(c.Number), checkpointFile))
}
