package branch

import (
	"cmp"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

const (
	checkpointsDir = "checkpoints"
	checkpointFile = "checkpoint.json"
	derivedFile    = "derived.json"
	manifestFile   = "manifest"
	objectsDir     = "objects"
)

// Checkpoint is a copy of the layer of a branch. It shares the contents of unchanged files with the previous
// checkpoint.
type Checkpoint struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
	// Files is the number of files in the checkpoint, and Bytes is their size. Ignored is the number of large files and
	// directories that the checkpoint leaves out because git ignores them.
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Ignored int   `json:"ignored,omitempty"`
	// Call is the id of the call before which the checkpoint was made, and Session is the session of the call. Both are
	// empty if a person or an agent requested the checkpoint.
	Call    string `json:"call,omitempty"`
	Session string `json:"session,omitempty"`
	// Undone means that the branch went back to this checkpoint or to an earlier one.
	Undone bool `json:"undone,omitempty"`
	// Then lists the commands of later calls without their own checkpoint. An undo of Call also undoes these calls.
	Then []string `json:"then,omitempty"`
	// Stored is the total size of the stored contents when this checkpoint was made. Zero means that it is unknown.
	Stored int64 `json:"stored,omitempty"`
	// Saved means that the checkpoint was made automatically before a restore.
	Saved bool `json:"saved,omitempty"`
}

// Automatic reports whether the checkpoint was made without a request. If there are too many automatic checkpoints, the
// oldest are removed.
func (c *Checkpoint) Automatic() bool { return c.Call != "" || c.Saved }

// CheckpointRules limits the checkpoints of a branch. The zero value stores everything and limits nothing.
type CheckpointRules struct {
	// Keep is the maximum number of automatic checkpoints, and Bytes is the maximum total size of the contents that all
	// checkpoints store. Zero means no limit.
	Keep  int
	Bytes int64
	// SkipIgnored leaves out large files and directories that git ignores.
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
	Object     string // name of the stored content; empty if none is stored
	LeftOut    bool   // whether the content and everything below the path are left out
}

// newestManifest is the manifest of the newest checkpoint. The next checkpoint is compared with it.
type newestManifest struct {
	number  int
	entries []entry
}

// entryOf returns an entry with the state of a file, but without its content and its attributes.
func entryOf(path string, st *unix.Stat_t) *entry {
	return &entry{Path: path, Mode: uint32(st.Mode), Uid: st.Uid, Gid: st.Gid, Size: st.Size, Inode: st.Ino, Ctime: st.Ctim.Nano(), Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano()} //nolint:unconvert // not all systems have 32 bits here
}

// ownAttributes returns the attributes of an entry without the marks of the overlay.
func (e *entry) ownAttributes() map[string][]byte {
	out := maps.Clone(e.Attributes)
	maps.DeleteFunc(out, func(name string, _ []byte) bool { return strings.HasPrefix(name, filetree.MarkPrefix) })
	return out
}

// unchanged reports whether a path has the same content as when the entry was made. This is reliable, because programs
// cannot set the ctime.
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
		if _, notNumber := strconv.Atoi(e.Name()); notNumber != nil {
			continue
		}
		var c Checkpoint
		text, readErr := os.ReadFile(filepath.Join(b.dir, checkpointsDir, e.Name(), checkpointFile))
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			return nil, fmt.Errorf("the checkpoint %s of the branch %s cannot be read: %w", e.Name(), b.Name, readErr)
		}
		if readErr == nil && json.Unmarshal(text, &c) == nil && strconv.Itoa(c.Number) == e.Name() {
			out = append(out, c) // skip damaged checkpoints, which can remain if the machine stops
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

// Checkpoint makes a copy of a branch's layer, from which [Store.Restore] can restore the layer. The branch must not be
// mounted. If the file system supports it, the copy shares its data with the layer.
func (s *Store) Checkpoint(b *Branch, message string, rules CheckpointRules) (*Checkpoint, error) {
	lock, err := s.ready(b)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	c, err := b.checkpoint(Checkpoint{Message: message}, rules)
	if err == nil {
		err = b.sync()
	}
	return c, err
}

// sync writes the layer and the checkpoints to the disk. Do not call it for automatic checkpoints: one is made before
// each call, and a sync takes too long for that.
func (b *Branch) sync() error {
	d, err := os.Open(b.dir)
	if err == nil {
		err = errors.Join(filetree.SyncAll(int(d.Fd())), d.Close())
	}
	if err != nil {
		return fmt.Errorf("the files of the branch %s cannot be synced to the disk: %w", b.Name, err)
	}
	return nil
}

// Before is like [Mount.Before], but for a branch that is not mounted.
func (s *Store) Before(b *Branch, session, call, command string, rules CheckpointRules) error {
	lock, err := s.ready(b)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	_, err = b.checkpoint(Checkpoint{Message: command, Call: call, Session: session}, rules)
	return err
}

// Before makes the checkpoint before a call in a mounted branch. If the same session made the last automatic
// checkpoint, and nothing has changed since then, that checkpoint is reused for this call. A checkpoint of another
// session is not reused, because the call for which it was made can still be running. Meanwhile, no other call of this
// process may change the branch.
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

// skip records that there is no checkpoint before a call.
func (b *Branch) skip(command string) {
	all, err := b.Checkpoints()
	if err != nil || len(all) == 0 {
		return
	}
	if last := &all[len(all)-1]; last.Call != "" && !last.Undone && len(last.Then) < maxThen {
		last.Then = append(last.Then, command)
		_ = b.relabel(last) // ignore the error: the caller reports that the checkpoint is missing
	}
}

// NoRoomError means that a checkpoint was not made, because the stored contents would exceed the limit.
type NoRoomError struct{ Limit int64 }

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("the checkpoints of the branch would need more than %d MiB", e.Limit>>20)
}

func (b *Branch) checkpoint(c Checkpoint, rules CheckpointRules) (*Checkpoint, error) {
	if err := b.gather(); err != nil {
		return nil, err
	}
	all, err := b.Checkpoints()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, checkpointsDir)
	if err := os.MkdirAll(filepath.Join(dir, objectsDir), 0o700); err != nil {
		return nil, err
	}
	c.At = time.Now()
	if c.Number, err = nextNumber(dir); err != nil {
		return nil, err
	}
	var last []entry
	if len(all) > 0 {
		if number := all[len(all)-1].Number; b.newest.number == number {
			last = b.newest.entries
		} else if last, err = b.manifest(number); err != nil {
			last = nil // the new checkpoint then shares no contents with the damaged one
		}
	}
	if err := removeFresh(dir); err != nil {
		return nil, err
	}
	stale, _ := filepath.Glob(b.object(fmt.Sprintf("%d-*", c.Number))) // contents that a killed process left
	for _, path := range stale {
		_ = os.Remove(path)
	}
	t := b.newTaker(&c, last, rules)
	entries, err := t.take()
	killpoint.Pass()
	if n := len(all); err == nil && n > 0 && t.same && all[n-1].Call != "" && c.Call != "" && all[n-1].Session == c.Session && !all[n-1].Undone {
		return b.rename(&c, &all[n-1], t)
	}
	if err == nil {
		c.Stored = t.stored
		if len(all) > 0 {
			if c.Stored += all[len(all)-1].Stored; all[len(all)-1].Stored == 0 {
				c.Stored = b.stored()
			}
		}
		err = b.store(&c, entries)
	}
	if err == nil {
		err = b.thin(append(all, c), rules)
	}
	room := (*NoRoomError)(nil)
	switch {
	case err == nil:
		b.newest = newestManifest{c.Number, entries}
		return &c, nil
	case errors.As(err, &room):
		return nil, err
	}
	t.drop()
	return nil, fmt.Errorf("the checkpoint of the branch %s cannot be made: %w", b.Name, err)
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
func (b *Branch) rename(c, last *Checkpoint, t *taker) (*Checkpoint, error) {
	c.Number, c.Stored = last.Number, last.Stored
	if t.grown {
		tmp := filepath.Join(b.checkpointDir(c.Number), ".new-"+manifestFile)
		if err := writeManifest(tmp, t.entries); err != nil {
			return nil, err
		}
		if err := os.Rename(tmp, filepath.Join(b.checkpointDir(c.Number), manifestFile)); err != nil {
			return nil, err
		}
		b.newest = newestManifest{c.Number, t.entries}
	}
	return c, b.relabel(c)
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
func (b *Branch) store(c *Checkpoint, entries []entry) error {
	dir := filepath.Join(b.dir, checkpointsDir)
	fresh, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // it is gone after the rename below
	err = writeManifest(filepath.Join(fresh, manifestFile), entries)
	killpoint.Pass()
	err = errors.Join(err, writeJSON(filepath.Join(fresh, derivedFile), b.derived()), writeJSON(filepath.Join(fresh, checkpointFile), c))
	if err == nil {
		err = os.Rename(fresh, b.checkpointDir(c.Number))
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

func writeManifest(path string, entries []entry) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(entries), f.Close())
}

// relabel replaces the description of a checkpoint.
func (b *Branch) relabel(c *Checkpoint) error {
	tmp := filepath.Join(b.checkpointDir(c.Number), ".new")
	if err := writeJSON(tmp, c); err != nil {
		return err
	}
	killpoint.Pass()
	return os.Rename(tmp, filepath.Join(b.checkpointDir(c.Number), checkpointFile))
}

// thin removes the oldest automatic checkpoints until the limits are met. If the other checkpoints alone exceed the
// limit of bytes, it instead removes the newest checkpoint and returns a [NoRoomError].
func (b *Branch) thin(all []Checkpoint, rules CheckpointRules) error {
	n := 0
	for i := range all {
		if all[i].Automatic() {
			n++
		}
	}
	last := &all[len(all)-1]
	stored := last.Stored
	if rules.Bytes > 0 && stored > rules.Bytes {
		stored = b.stored() // measure again, because a killed process can have removed contents
	}
	for rules.Keep > 0 && n > rules.Keep || rules.Bytes > 0 && stored > rules.Bytes {
		i := slices.IndexFunc(all[:len(all)-1], func(c Checkpoint) bool { return c.Automatic() })
		if i < 0 && (rules.Bytes == 0 || stored <= rules.Bytes) {
			break
		}
		if i < 0 {
			b.newest = newestManifest{}
			_, err := b.forget(all, len(all)-1)
			return errors.Join(err, &NoRoomError{Limit: rules.Bytes})
		}
		freed, err := b.forget(all, i)
		if err != nil {
			return err
		}
		all, n, stored = slices.Delete(all, i, i+1), n-1, stored-freed
	}
	if last = &all[len(all)-1]; stored == last.Stored {
		return nil
	}
	last.Stored = stored
	return b.relabel(last)
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

// forget removes a checkpoint and the contents that only this checkpoint uses. A checkpoint shares contents only with
// its neighbors, so only these are examined. forget returns the size of the removed contents.
func (b *Branch) forget(all []Checkpoint, i int) (freed int64, err error) {
	gone, _ := b.manifest(all[i].Number) // ignore the error: the contents of a damaged checkpoint are removed with the branch
	used := make(map[string]bool)
	for _, j := range []int{i - 1, i + 1} {
		if j < 0 || j >= len(all) {
			continue
		}
		others, err := b.manifest(all[j].Number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		for k := range others {
			used[others[k].Object] = true
		}
	}
	if err := filetree.RemoveAll(b.checkpointDir(all[i].Number)); err != nil {
		return 0, err
	}
	killpoint.Pass()
	for k := range gone {
		if name := gone[k].Object; name != "" && !used[name] {
			used[name] = true                     // several names of one file have the same content
			if os.Remove(b.object(name)) == nil { // if this fails, the content is removed with the branch
				freed += gone[k].Size
			}
		}
	}
	return freed, nil
}

func (b *Branch) object(name string) string {
	return filepath.Join(b.dir, checkpointsDir, objectsDir, name)
}
