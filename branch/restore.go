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
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
	"toolhost.dev/branch/internal/mirror"
)

// restoreFile is the name of the file that describes an incomplete restore.
const restoreFile = "restore.json"

// restoring describes a restore that was begun. If its process is killed, the next process that uses the branch
// completes the restore.
type restoring struct {
	Number int `json:"number"`
	// Saved is the number of the checkpoint that was made before the restore.
	Saved int  `json:"saved"`
	Undo  bool `json:"undo"`
	// Stay lists paths of the layer that stay unchanged. See [target].
	Stay [][]byte `json:"stay,omitempty"`
	// SkipIgnored is set only by older versions of the program, which do not set Stay.
	SkipIgnored bool `json:"skip_ignored,omitempty"`
}

// Restore restores the layer of a branch from a checkpoint. Number 0 means the last checkpoint. Restore first makes a
// checkpoint of the current layer, so that the restore can be undone. The branch must not be mounted.
func (s *Store) Restore(b *Branch, number int, rules CheckpointRules) (*Restored, error) {
	return s.goBack(b, number, false, rules)
}

// Undo is like Restore, but also marks the checkpoint and all later checkpoints as undone.
func (s *Store) Undo(b *Branch, number int, rules CheckpointRules) (*Restored, error) {
	return s.goBack(b, number, true, rules)
}

func (s *Store) goBack(b *Branch, number int, undo bool, rules CheckpointRules) (*Restored, error) {
	lock, err := s.ready(b)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	unlock, err := b.lockCopy()
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, done, err := b.beginRestore(number, undo, rules)
	if err != nil {
		return nil, err
	}
	if err := b.restore(*r); err != nil {
		return nil, errors.Join(fmt.Errorf("the branch %s cannot be restored, so it stays as it is: %w", b.Name, err), os.Remove(filepath.Join(b.dir, restoreFile)))
	}
	return done, b.sync() // the branch is not mounted, so nothing else would show that the layer can be torn
}

// beginRestore makes a checkpoint of the current layer, and records that a restore begins.
func (b *Branch) beginRestore(number int, undo bool, rules CheckpointRules) (*restoring, *Restored, error) {
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
	rules.Keep, rules.Bytes = 0, 0 // remove no checkpoints, because the one to restore could be removed
	saved, err := b.checkpoint(Checkpoint{Saved: true, Message: fmt.Sprintf("before the restore of checkpoint %d", all[i].Number)}, rules)
	if err != nil {
		return nil, nil, err
	}
	entries, err := b.manifest(all[i].Number)
	if err != nil {
		return nil, nil, err
	}
	t, err := b.target(&all[i], entries, leftOut(b.newest.entries))
	if err != nil {
		return nil, nil, err
	}
	r := &restoring{Number: all[i].Number, Saved: saved.Number, Undo: undo}
	for _, path := range t.stay {
		r.Stay = append(r.Stay, []byte(path))
	}
	text, err := json.Marshal(r)
	err = errors.Join(err, b.derive(r.Number))
	if err == nil {
		err = durable.Replace(filepath.Join(b.dir, restoreFile), text)
	}
	killpoint.Pass()
	if err != nil {
		return nil, nil, fmt.Errorf("the branch %s cannot be restored, so it stays as it is: %w", b.Name, err)
	}
	return r, &Restored{To: &all[i], Saved: saved, Stay: t.stay, Lost: t.lost}, nil
}

// derived is the derivation of the layer of a checkpoint.
type derived struct {
	derivation
	// Round belongs to a branch that is a copy; see [mirror.Mirror.Doubt].
	Round uint64 `json:"round,omitempty"`
}

func (b *Branch) derived() derived {
	out := derived{derivation: b.derivation}
	if b.Copy != nil {
		out.Round = b.copied().Round()
	}
	return out
}

// derive prepares the branch for the layer of a checkpoint. An apply since then can have merged changes of the base
// that this layer lacks. They must not count as seen. The current layer can then have conflicts that it did not have;
// they vanish with it.
func (b *Branch) derive(number int) error {
	text, err := os.ReadFile(filepath.Join(b.checkpointDir(number), derivedFile))
	was := derived{derivation: derivation{Since: 1}} // an older version of the program stored nothing, so everything counts as changed
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.derivation = was.derivation
	err = b.withCopy(func(m *mirror.Mirror) error { return m.Doubt(was.Round) })
	return errors.Join(err, b.save())
}

// target returns the result that the restore must have.
func (r *restoring) target(b *Branch) (*target, error) {
	entries, err := b.manifest(r.Number)
	if err != nil {
		return nil, err
	}
	if r.SkipIgnored {
		return b.target(&Checkpoint{Ignored: 1}, entries, nil)
	}
	t := &target{}
	for _, path := range r.Stay {
		t.stay = append(t.stay, string(path))
	}
	t.entries = t.restorable(entries)
	return t, nil
}

// completeRestore completes the restore of a killed process, and updates a stale copy. The branch must be locked, and
// all of its applies must be complete.
func (b *Branch) completeRestore() error {
	if err := b.continueRestore(); err != nil {
		return err
	}
	return b.renewCopy()
}

// continueRestore completes a restore whose process was killed. The branch must be locked.
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

// restore restores the layer from a checkpoint. It can be repeated after a kill.
func (b *Branch) restore(r restoring) error {
	if err := b.exchangeLayer(r); err != nil {
		return err
	}
	return b.endRestore(r)
}

// exchangeLayer makes a new layer from a checkpoint, and exchanges the layer with it.
func (b *Branch) exchangeLayer(r restoring) error {
	t, err := r.target(b)
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
	defer filetree.RemoveAll(fresh) //nolint:errcheck // it has only the old layer after the exchange below
	next := filepath.Join(fresh, upperDir)
	if err := b.rebuild(next, t); err != nil {
		return err
	}
	killpoint.Pass()
	if err := b.outdate(); err != nil {
		return err
	}
	if err := filetree.ExchangePaths(next, b.Layer()); err != nil {
		return err
	}
	killpoint.Pass()
	return b.renewCopy()
}

// endRestore records that a restore is complete.
func (b *Branch) endRestore(r restoring) error {
	if r.Undo {
		if err := b.markUndone(r); err != nil {
			return err
		}
	}
	killpoint.Pass()
	return os.Remove(filepath.Join(b.dir, restoreFile))
}

// markUndone marks the restored checkpoint and all later ones as undone.
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

// rebuild creates a new layer in the directory "to".
func (b *Branch) rebuild(to string, t *target) error {
	entries := t.entries
	made := make(map[string]string) // first path of each content, for files with several names
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
		killpoint.Pass()
	}
	if err := b.carry(to, t.stay); err != nil {
		return err
	}
	// Last, because new entries change the times of a directory and need write permission.
	for i := range slices.Backward(entries) {
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
			err = filetree.SetAttributes(at, e.Attributes)
		}
		return err
	case unix.S_IFREG:
		err = filetree.CopyFile(b.object(e.Object), at)
	case unix.S_IFLNK:
		err = os.Symlink(e.Target, at)
	case unix.S_IFCHR: // this creates a whiteout; the layer contains no other devices
		return unix.Mknod(at, unix.S_IFCHR, 0)
	default:
		err = unix.Mknod(at, e.Mode, 0)
	}
	if err == nil {
		err = filetree.SetAttributes(at, e.Attributes)
	}
	if err != nil {
		return err
	}
	return finishEntry(at, e)
}

// previewed is the pattern for the names of the directories that Preview makes.
const previewed = ".preview-*"

// previewTime is more than the time that Preview needs.
const previewTime = time.Hour

// removePreviews removes directories that killed processes left in Preview. It keeps young ones, because Preview needs
// no lock.
func (b *Branch) removePreviews() error {
	left, err := filepath.Glob(filepath.Join(b.dir, previewed))
	for _, path := range left {
		if info, statErr := os.Lstat(path); statErr == nil && time.Since(info.ModTime()) > previewTime {
			err = errors.Join(err, filetree.RemoveAll(path))
		}
	}
	return err
}

// Preview returns the changes that a restore of a checkpoint would make in the branch, as a list and as a diff of about
// limit bytes.
func (b *Branch) Preview(number int, rules CheckpointRules, limit int) ([]change.Change, string, error) {
	t, err := b.wanted(number, rules)
	if err != nil {
		return nil, "", err
	}
	fresh, err := os.MkdirTemp(b.dir, previewed)
	if err != nil {
		return nil, "", err
	}
	defer filetree.RemoveAll(fresh) //nolint:errcheck // a later use of the branch removes it
	next := filepath.Join(fresh, upperDir)
	if err := b.rebuild(next, t); err != nil {
		return nil, "", err
	}
	after := change.View{Base: b.Base, Upper: next}
	changes, err := change.Compare(b.ownView(), after)
	if err != nil {
		return nil, "", err
	}
	return changes, change.ShortDiff(b.ownView(), after, changes, limit), nil
}

// wanted returns the result that a restore would have.
func (b *Branch) wanted(number int, rules CheckpointRules) (*target, error) {
	all, err := b.Checkpoints()
	if err != nil {
		return nil, err
	}
	entries, err := b.manifest(number)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("the branch %s has no checkpoint %d", b.Name, number)
	}
	rules.Bytes = 0
	now, err := b.compare(nil, rules)
	if err != nil {
		return nil, err
	}
	return b.target(&all[i], entries, leftOut(now.entries))
}

// Undoable returns the checkpoint to which an undo goes back. If the argument "to" is a call or the number of a
// checkpoint, this is the checkpoint before the call. Otherwise it is the checkpoint before the last calls that changed
// the branch; the argument "steps" is the number of these calls. The second result lists the calls that would be
// undone, the last one first.
func (b *Branch) Undoable(to string, steps int, rules CheckpointRules) (*Checkpoint, []Checkpoint, error) {
	all, err := b.Checkpoints()
	if err != nil {
		return nil, nil, err
	}
	if to != "" {
		i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Call == to || strconv.Itoa(c.Number) == to })
		if i < 0 {
			return nil, nil, fmt.Errorf("the branch %s has no checkpoint before a call %q", b.Name, to)
		}
		return &all[i], b.calls(all[i:], rules), nil
	}
	calls := b.calls(all, rules)
	if steps > len(calls) {
		return nil, calls, nil
	}
	return &calls[steps-1], calls[:steps], nil
}

// calls returns the calls that changed something and are not yet undone, the last one first.
func (b *Branch) calls(all []Checkpoint, rules CheckpointRules) []Checkpoint {
	out := []Checkpoint{}
	for i := range slices.Backward(all) {
		if c := all[i]; c.Call != "" && !c.Undone {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return out
	}
	if last, err := b.manifest(out[0].Number); err == nil {
		if t, err := b.compare(last, rules); err == nil && t.same {
			out = out[1:] // the last call changed nothing
		}
	}
	return out
}

// finishEntry sets the owner, the mode and the times of an entry.
func finishEntry(path string, e *entry) error {
	st := &unix.Stat_t{Uid: e.Uid, Gid: e.Gid, Atim: unix.NsecToTimespec(e.Atime), Mtim: unix.NsecToTimespec(e.Mtime)}
	filetree.SetMode(st, e.Mode)
	return filetree.FinishCopy(path, st)
}
