package branch

import (
	"cmp"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
)

const (
	checkpointsDir = "checkpoints"
	checkpointFile = "checkpoint.json"
	manifestFile   = "manifest"
	objectsDir     = "objects"
)

// Checkpoint is a copy of the layer of a branch. It shares the contents of unchanged files with the checkpoint before it.
type Checkpoint struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
	// Files counts the files in the checkpoint, and Bytes is their size. Ignored counts the files that are not in it,
	// because git ignores them.
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Ignored int   `json:"ignored,omitempty"`
	// Call is the call before which the checkpoint was made, and Session is the session of the call. They are empty for a
	// checkpoint that somebody asked for.
	Call    string `json:"call,omitempty"`
	Session string `json:"session,omitempty"`
	// Undone means that the branch went back to this checkpoint or to an earlier one.
	Undone bool `json:"undone,omitempty"`
	// Then lists calls after Call that have no checkpoint of their own, so an undo of Call also takes them back.
	Then []string `json:"then,omitempty"`
	// Saved means that the checkpoint was made before a restore.
	Saved bool `json:"saved,omitempty"`
}

// Automatic reports whether nobody asked for the checkpoint. The oldest automatic ones are removed if there are too many.
func (c *Checkpoint) Automatic() bool { return c.Call != "" || c.Saved }

// CheckpointRules limits the checkpoints of a branch. The zero value stores everything and limits nothing.
type CheckpointRules struct {
	// Keep is the maximum number of automatic checkpoints, and Bytes is the maximum size of what all checkpoints store.
	// Zero means no limit.
	Keep  int
	Bytes int64
	// SkipIgnored leaves out the contents of files that git ignores.
	SkipIgnored bool
}

// entry is a path of a layer in a manifest.
type entry struct {
	Path       string
	Mode       uint32
	Uid, Gid   uint32 //nolint:revive // as in unix.Stat_t
	Size       int64
	Inode      uint64
	Ctime      int64
	Atime      int64
	Mtime      int64
	Target     string
	Attributes map[string][]byte
	Object     string // the name of the stored content; empty for what has none
}

// newestManifest keeps the manifest of the newest checkpoint, which the next one is compared with.
type newestManifest struct {
	number  int
	entries []entry
	stored  int64 // the size of all stored contents
}

// unchanged reports whether a path has the same content as when the entry was made. No program can set the ctime.
func (e *entry) unchanged(st *unix.Stat_t) bool {
	return e.Inode == st.Ino && e.Ctime == st.Ctim.Nano() && e.Size == st.Size && e.Mode == uint32(st.Mode) //nolint:unconvert // not all systems have 32 bits here
}

// Checkpoints lists the checkpoints of a branch, the oldest first.
func (b *Branch) Checkpoints() ([]Checkpoint, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Checkpoint
	for _, e := range entries {
		var c Checkpoint
		text, readErr := os.ReadFile(filepath.Join(b.dir, checkpointsDir, e.Name(), checkpointFile))
		if readErr == nil && json.Unmarshal(text, &c) == nil && strconv.Itoa(c.Number) == e.Name() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Number, b.Number) })
	return out, err
}

func (b *Branch) checkpointDir(number int) string {
	return filepath.Join(b.dir, checkpointsDir, strconv.Itoa(number))
}

func (b *Branch) manifest(number int) (out []entry, err error) {
	f, err := os.Open(filepath.Join(b.checkpointDir(number), manifestFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()                                        //nolint:errcheck // only read
	if err := gob.NewDecoder(f).Decode(&out); err != nil { //nolint:gosec // only this host writes there
		return nil, fmt.Errorf("the checkpoint %d of the branch %s is damaged: %w", number, b.Name, err)
	}
	return out, nil
}

// Checkpoint copies the layer of a branch, so that [Store.Restore] can go back to it. The branch must not be mounted. The
// copies share their data with the layer where the file system supports it.
func (s *Store) Checkpoint(b *Branch, message string, rules CheckpointRules) (*Checkpoint, error) {
	lock, err := waitLock(b)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	c, err := b.checkpoint(Checkpoint{Message: message}, rules)
	if err == nil {
		err = durable.SyncDir(filepath.Join(b.dir, checkpointsDir))
	}
	return c, err
}

// Before is like [Mount.Before] for a branch that is not mounted.
func (s *Store) Before(b *Branch, session, call, command string, rules CheckpointRules) error {
	lock, err := waitLock(b)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	_, err = b.checkpoint(Checkpoint{Message: command, Call: call, Session: session}, rules)
	return err
}

// Before makes the checkpoint before a call in a mounted branch. If nothing changed since the last automatic checkpoint, that
// one becomes the checkpoint before this call. No other call of this process may change the branch meanwhile.
func (m *Mount) Before(session, call, command string, rules CheckpointRules) (*Checkpoint, error) {
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	c, err := m.Branch.checkpoint(Checkpoint{Message: command, Call: call, Session: session}, rules)
	if err != nil {
		m.Branch.skip(command)
	}
	return c, err
}

// maxThen limits [Checkpoint.Then].
const maxThen = 20

// skip records that a call has no checkpoint.
func (b *Branch) skip(command string) {
	all, err := b.Checkpoints()
	if err != nil || len(all) == 0 {
		return
	}
	if last := &all[len(all)-1]; last.Call != "" && !last.Undone && len(last.Then) < maxThen {
		last.Then = append(last.Then, command)
		_ = b.relabel(last) // ignore the error: the caller is told anyway
	}
}

// NoRoomError means that a checkpoint was not made, because it would exceed the limit.
type NoRoomError struct{ Limit int64 }

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("the checkpoints of the branch would need more than %d MiB", e.Limit>>20)
}

func (b *Branch) checkpoint(c Checkpoint, rules CheckpointRules) (*Checkpoint, error) {
	all, err := b.Checkpoints()
	if err != nil {
		return nil, err
	}
	c.Number, c.At = 1, time.Now()
	var last []entry
	if len(all) > 0 {
		c.Number = all[len(all)-1].Number + 1
		if number := all[len(all)-1].Number; b.newest.number == number {
			last = b.newest.entries
		} else if last, err = b.manifest(number); err != nil {
			last = nil // a damaged checkpoint is only not shared
		}
	}
	dir := filepath.Join(b.dir, checkpointsDir)
	if err := os.MkdirAll(filepath.Join(dir, objectsDir), 0o700); err != nil {
		return nil, err
	}
	if err := removeFresh(dir); err != nil {
		return nil, err
	}
	t := b.newTaker(&c, last, rules)
	entries, err := t.take()
	killed()
	if n := len(all); err == nil && n > 0 && t.same && all[n-1].Call != "" && c.Call != "" && !all[n-1].Undone {
		c.Number = all[n-1].Number
		return &c, b.relabel(&c)
	}
	if err == nil {
		err = b.store(&c, entries)
	}
	stored := b.newest.stored + t.stored
	if b.newest.number == 0 || b.newest.number != c.Number-1 {
		stored = b.stored()
	}
	if err == nil {
		stored, err = b.thin(append(all, c), rules, stored)
	}
	room := (*NoRoomError)(nil)
	switch {
	case err == nil:
		b.newest = newestManifest{c.Number, entries, stored}
		return &c, nil
	case errors.As(err, &room):
		return nil, err
	}
	t.drop()
	return nil, fmt.Errorf("the checkpoint of the branch %s cannot be made: %w", b.Name, err)
}

// removeFresh removes what a killed process left in a directory.
func removeFresh(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	for _, path := range left {
		err = errors.Join(err, removeAll(path))
	}
	return err
}

// store writes a new checkpoint, whose contents are stored already.
func (b *Branch) store(c *Checkpoint, entries []entry) error {
	dir := filepath.Join(b.dir, checkpointsDir)
	fresh, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // it is gone after the rename below
	f, err := os.Create(filepath.Join(fresh, manifestFile))
	if err != nil {
		return err
	}
	err = errors.Join(gob.NewEncoder(f).Encode(entries), f.Close())
	killed()
	text, marshalErr := json.Marshal(c)
	if err = errors.Join(err, marshalErr); err == nil {
		err = os.WriteFile(filepath.Join(fresh, checkpointFile), text, 0o600)
	}
	if err == nil {
		err = os.Rename(fresh, b.checkpointDir(c.Number))
	}
	killed()
	return err
}

// relabel replaces the description of a checkpoint.
func (b *Branch) relabel(c *Checkpoint) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tmp := filepath.Join(b.checkpointDir(c.Number), ".new")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	killed()
	return os.Rename(tmp, filepath.Join(b.checkpointDir(c.Number), checkpointFile))
}

// thin removes the oldest automatic checkpoints that exceed the limits. The argument stored is the size of all stored
// contents, and the first result is the size after it. It returns a [NoRoomError], and removes the newest
// checkpoint, if the other ones alone exceed the limit of bytes.
func (b *Branch) thin(all []Checkpoint, rules CheckpointRules, stored int64) (int64, error) {
	n := 0
	for i := range all {
		if all[i].Automatic() {
			n++
		}
	}
	for rules.Keep > 0 && n > rules.Keep || rules.Bytes > 0 && stored > rules.Bytes {
		i := slices.IndexFunc(all[:len(all)-1], func(c Checkpoint) bool { return c.Automatic() })
		if i < 0 && (rules.Bytes == 0 || stored <= rules.Bytes) {
			return stored, nil
		}
		if i < 0 {
			i = len(all) - 1
		}
		if err := b.forget(all, i); err != nil {
			return stored, err
		}
		if i == len(all)-1 {
			b.newest = newestManifest{}
			return stored, &NoRoomError{Limit: rules.Bytes}
		}
		all, n, stored = slices.Delete(all, i, i+1), n-1, b.stored()
	}
	return stored, nil
}

// stored returns the size of all stored contents.
func (b *Branch) stored() (size int64) {
	entries, _ := os.ReadDir(filepath.Join(b.dir, checkpointsDir, objectsDir)) // ignore the error: the directory exists
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// forget removes a checkpoint and the contents that no other one has. A checkpoint only shares contents with the one before
// it, so the contents of a checkpoint are also in its neighbors or nowhere.
func (b *Branch) forget(all []Checkpoint, i int) error {
	gone, _ := b.manifest(all[i].Number) // ignore the error: the contents of a damaged checkpoint are removed with the branch
	used := make(map[string]bool)
	for _, j := range []int{i - 1, i + 1} {
		if j < 0 || j >= len(all) {
			continue
		}
		others, err := b.manifest(all[j].Number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for k := range others {
			used[others[k].Object] = true
		}
	}
	if err := removeAll(b.checkpointDir(all[i].Number)); err != nil {
		return err
	}
	killed()
	for k := range gone {
		if name := gone[k].Object; name != "" && !used[name] {
			_ = os.Remove(b.object(name)) // ignore the error: the content is removed with the branch
		}
	}
	return nil
}

func (b *Branch) object(name string) string {
	return filepath.Join(b.dir, checkpointsDir, objectsDir, name)
}
