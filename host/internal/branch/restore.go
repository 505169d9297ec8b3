package branch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
)

// restoreFile names the restore that a process began.
const restoreFile = "restore.json"

// restoring is a restore that a process began. The next process that uses the branch completes it.
type restoring struct {
	Number int `json:"number"`
	// Saved is the checkpoint of the branch before the restore.
	Saved int  `json:"saved"`
	Undo  bool `json:"undo"`

	SkipIgnored bool `json:"skip_ignored"`
}

// Restore makes the layer of a branch what it was at a checkpoint. Number 0 means the last one. It first makes a checkpoint
// of the layer as it is, so a restore can be taken back. The branch must not be mounted.
func (s *Store) Restore(b *Branch, number int, rules CheckpointRules) (restored, saved *Checkpoint, err error) {
	return s.goBack(b, number, false, rules)
}

// Undo is like Restore, and marks the checkpoint and all later ones as undone.
func (s *Store) Undo(b *Branch, number int, rules CheckpointRules) (restored, saved *Checkpoint, err error) {
	return s.goBack(b, number, true, rules)
}

func (s *Store) goBack(b *Branch, number int, undo bool, rules CheckpointRules) (restored, saved *Checkpoint, err error) {
	lock, err := waitLock(b)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	if err := b.recover(s.Guard); err != nil {
		return nil, nil, err
	}
	all, err := b.Checkpoints()
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Number == number })
	if number == 0 {
		i = len(all) - 1
	}
	if i < 0 {
		return nil, nil, fmt.Errorf("the branch %s has no checkpoint %d. See toolhost branch checkpoints %[1]s", b.Name, number)
	}
	rules.Keep, rules.Bytes = 0, 0 // what is restored must not be removed to make room for what is saved
	if saved, err = b.checkpoint(Checkpoint{Saved: true, Message: fmt.Sprintf("before the restore of checkpoint %d", all[i].Number)}, rules); err != nil {
		return nil, nil, err
	}
	r := restoring{Number: all[i].Number, Saved: saved.Number, Undo: undo, SkipIgnored: rules.SkipIgnored}
	text, err := json.Marshal(r)
	if err == nil {
		err = durable.Replace(filepath.Join(b.dir, restoreFile), text)
	}
	killed()
	if err == nil {
		err = b.restore(r)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the branch %s cannot be restored, so it stays as it is: %w", b.Name, err), os.Remove(filepath.Join(b.dir, restoreFile)))
	}
	return &all[i], saved, durable.SyncDir(b.dir)
}

// continueRestore completes a restore during which a process was killed. The branch must be locked.
func (b *Branch) continueRestore() error {
	text, err := os.ReadFile(filepath.Join(b.dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r restoring
	if err = errors.Join(err, json.Unmarshal(text, &r)); err == nil {
		err = b.restore(r)
	}
	if err != nil {
		return fmt.Errorf("the restore of checkpoint %d of the branch %s was interrupted and cannot be completed: %w. To give it up, remove %s", r.Number, b.Name, err, filepath.Join(b.dir, restoreFile))
	}
	return nil
}

// restore exchanges the layer with one that is made from a checkpoint. It can be repeated.
func (b *Branch) restore(r restoring) error {
	entries, err := b.manifest(r.Number)
	if err != nil {
		return err
	}
	if err := removeFresh(b.dir); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(b.dir, ".new-")
	if err != nil {
		return err
	}
	defer removeAll(fresh) //nolint:errcheck // it has only the old layer after the exchange below
	next := filepath.Join(fresh, upperDir)
	if err := b.rebuild(next, entries, r.SkipIgnored); err != nil {
		return err
	}
	killed()
	if err := exchangePaths(next, b.Layer()); err != nil {
		return err
	}
	killed()
	if r.Undo {
		if err := b.markUndone(r); err != nil {
			return err
		}
	}
	killed()
	return os.Remove(filepath.Join(b.dir, restoreFile))
}

// markUndone marks the checkpoint to which the branch went back, and all later ones.
func (b *Branch) markUndone(r restoring) error {
	all, err := b.Checkpoints()
	if err != nil {
		return err
	}
	for i := range all {
		if c := &all[i]; c.Number >= r.Number && !c.Undone {
			c.Undone = true
			if err := b.relabel(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// rebuild makes a layer from a checkpoint. Ignored files that the checkpoint does not have stay as they are now.
func (b *Branch) rebuild(to string, entries []entry, skipIgnored bool) error {
	made := make(map[string]string) // the first path of each content with several names
	inodes := make(map[uint64]int)
	for i := range entries {
		inodes[entries[i].Inode]++
	}
	for i := range entries {
		e := &entries[i]
		at := filepath.Join(to, e.Path)
		if first := made[e.Object]; e.Object != "" && first != "" && inodes[e.Inode] > 1 {
			if err := os.Link(first, at); err != nil {
				return err
			}
			continue
		}
		if err := b.rebuildEntry(at, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if e.Object != "" {
			made[e.Object] = at
		}
		killed()
	}
	if skipIgnored {
		if err := b.keepIgnored(to); err != nil {
			return err
		}
	}
	for i := range slices.Backward(entries) { // at last, because new entries change the times and need the right to write
		if e := &entries[i]; e.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := finishEntry(filepath.Join(to, e.Path), e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Branch) rebuildEntry(at string, e *entry) error {
	var err error
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = os.Mkdir(at, 0o700); err == nil {
			err = setAttributes(at, e.Attributes)
		}
		return err
	case unix.S_IFREG:
		err = copyFile(b.object(e.Object), at)
	case unix.S_IFLNK:
		err = os.Symlink(e.Target, at)
	case unix.S_IFCHR: // a whiteout, or nothing that this user could make
		return unix.Mknod(at, unix.S_IFCHR, 0)
	default:
		err = unix.Mknod(at, e.Mode, 0)
	}
	if err == nil {
		err = setAttributes(at, e.Attributes)
	}
	if err != nil {
		return err
	}
	return finishEntry(at, e)
}

// keepIgnored links the ignored files of the layer into a new layer.
func (b *Branch) keepIgnored(to string) error {
	if _, repository := b.after().find(".git"); !repository {
		return nil
	}
	ignore := b.ignored()
	return filepath.WalkDir(b.Layer(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(b.Layer(), path)
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); err != nil || rel == "." || isWhiteout(&st) || !ignore.Ignored(rel, d.IsDir()) {
			return err
		}
		at := filepath.Join(to, rel)
		var dir unix.Stat_t
		switch parent := filepath.Dir(at); {
		case unix.Lstat(parent, &dir) != nil:
			if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // as a program makes a directory
				return err
			}
		case dir.Mode&unix.S_IFMT != unix.S_IFDIR:
			return nil // the checkpoint has a file in place of the directory
		}
		if unix.Lstat(at, &dir) == nil && !d.IsDir() {
			return nil // the checkpoint has it
		}
		if !d.IsDir() {
			return os.Link(path, at) //nolint:gosec // nobody else uses the layer, which is locked
		}
		err = os.Mkdir(at, 0o700)
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = errors.Join(copyMarks(path, at), os.Chmod(at, os.FileMode(st.Mode&0o777)|0o700))
		}
		return err
	})
}

// Preview returns what a restore of a checkpoint would change in the branch, as a list and as a diff of about limit bytes.
func (b *Branch) Preview(number int, rules CheckpointRules, limit int) ([]Change, string, error) {
	entries, err := b.manifest(number)
	if err != nil {
		return nil, "", err
	}
	fresh, err := os.MkdirTemp(b.dir, ".preview-")
	if err != nil {
		return nil, "", err
	}
	defer removeAll(fresh) //nolint:errcheck // the next call removes it
	next := filepath.Join(fresh, upperDir)
	if err := b.rebuild(next, entries, rules.SkipIgnored); err != nil {
		return nil, "", err
	}
	after := view{base: b.Base, layer: next}
	changes, err := compare(b.after(), after)
	if err != nil {
		return nil, "", err
	}
	return changes, shortDiff(b.after(), after, changes, limit), nil
}

// Undoable returns the checkpoint to which an undo of a session goes back: the one before the given call, or before the
// last call that changed the branch. Another form of a call is the number of its checkpoint. Steps counts the calls that
// are undone. The second result lists these calls, the last one first.
func (b *Branch) Undoable(to string, steps int) (*Checkpoint, []Checkpoint, error) {
	all, err := b.Checkpoints()
	if err != nil {
		return nil, nil, err
	}
	if to != "" {
		i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Call == to || strconv.Itoa(c.Number) == to })
		if i < 0 {
			return nil, nil, fmt.Errorf("the branch %s has no checkpoint before a call %q", b.Name, to)
		}
		return &all[i], b.calls(all[i:]), nil
	}
	calls := b.calls(all)
	if steps > len(calls) {
		return nil, calls, nil
	}
	return &calls[steps-1], calls[:steps], nil
}

// calls returns the calls that can be undone and that changed something, the last one first.
func (b *Branch) calls(all []Checkpoint) []Checkpoint {
	out := []Checkpoint{}
	for i := range slices.Backward(all) {
		if c := all[i]; c.Call != "" && !c.Undone {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return out
	}
	if last, err := b.manifest(out[0].Number); err == nil && b.equals(last) {
		out = out[1:] // the last call changed nothing
	}
	return out
}

// equals reports whether the layer is as in a manifest.
func (b *Branch) equals(entries []entry) bool {
	by := make(map[string]*entry, len(entries))
	for i := range entries {
		by[entries[i].Path] = &entries[i]
	}
	t := &taker{b: b, c: &Checkpoint{}}
	if _, repository := b.after().find(".git"); repository {
		t.ignore = b.ignored()
	}
	n, same := 0, true
	err := filepath.WalkDir(b.Layer(), func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		rel, relErr := filepath.Rel(b.Layer(), path)
		if err = errors.Join(err, relErr, unix.Lstat(path, &st)); err != nil {
			return err
		}
		e := by[rel]
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFSOCK:
			return nil
		case e == nil && rel != "." && t.ignore != nil && t.ignore.Ignored(rel, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e == nil || !e.unchanged(&st) && (!d.IsDir() || e.Mode != uint32(st.Mode)): //nolint:unconvert // not all systems have 32 bits here
			same = false
			return fs.SkipAll
		}
		n++
		return nil
	})
	return err == nil && same && n == len(entries)
}

// setAttributes sets extended attributes of a file.
func setAttributes(path string, all map[string][]byte) error {
	for name, value := range all {
		if err := unix.Lsetxattr(path, name, value, 0); err != nil {
			return fmt.Errorf("the attribute %s cannot be set: %w", name, err)
		}
	}
	return nil
}

// finishEntry sets the owner, the mode and the times of an entry.
func finishEntry(path string, e *entry) error {
	st := &unix.Stat_t{Uid: e.Uid, Gid: e.Gid, Atim: unix.NsecToTimespec(e.Atime), Mtim: unix.NsecToTimespec(e.Mtime)}
	setMode(&st.Mode, e.Mode)
	return finishCopy(path, st)
}

// setMode sets the mode of a file, whose type depends on the system.
func setMode[T uint16 | uint32](mode *T, value uint32) { *mode = T(value) }
