package branch

import (
	"errors"
	"fmt"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/killpoint"
)

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
	unlock, err := b.work.Lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, done, err := b.beginRestore(number, undo, rules)
	if err != nil {
		return nil, err
	}
	if err := b.restore(r); err != nil {
		return nil, errors.Join(fmt.Errorf("the branch %s cannot be restored, so it stays as it is: %w", b.Name, err), b.saves().GiveUp())
	}
	return done, b.sync() // the branch is not mounted, so nothing else would show that the layer can be torn
}

// beginRestore makes a checkpoint of the current layer, and records that a restore begins.
func (b *Branch) beginRestore(number int, undo bool, rules CheckpointRules) (*checkpoint.Restore, *Restored, error) {
	set := b.saves()
	to, err := set.Find(number)
	if err != nil {
		return nil, nil, err
	}
	rules.Keep, rules.Bytes = 0, 0 // remove no checkpoints, because the one to restore could be removed
	saved, err := b.checkpoint(Checkpoint{Saved: true,
		Message: fmt.Sprintf("before the restore of checkpoint %d", to.Number)}, rules)
	if err != nil {
		return nil, nil, err
	}
	r, done, err := set.Plan(to, saved, undo)
	if err != nil {
		return nil, nil, err
	}
	if err = b.derive(r.Number); err == nil {
		err = set.Begin(r)
	}
	killpoint.Pass()
	if err != nil {
		return nil, nil, fmt.Errorf("the branch %s cannot be restored, so it stays as it is: %w", b.Name, err)
	}
	return r, done, nil
}

// derived is the derivation of the layer of a checkpoint.
type derived struct {
	derivation
	// Round belongs to a branch that is a copy; see [mirror.Mirror.Doubt].
	Round uint64 `json:"round,omitempty"`
}

func (b *Branch) derived() derived {
	return derived{derivation: b.derivation, Round: b.work.Round()}
}

// derive prepares the branch for the layer of a checkpoint. An apply since then can have merged changes of the base
// that this layer lacks. They must not count as seen. The current layer can then have conflicts that it did not have;
// they vanish with it.
func (b *Branch) derive(number int) error {
	was := derived{derivation: derivation{Since: 1}} // an older version of the program stored nothing, so everything counts as changed
	if err := b.saves().Derived(number, &was); err != nil {
		return err
	}
	b.derivation = was.derivation
	return errors.Join(b.work.Doubt(was.Round), b.save())
}

// completeRestore completes the restore of a killed process, and updates a stale copy. The branch must be locked, and
// all of its applies must be complete.
func (b *Branch) completeRestore() error {
	if err := b.continueRestore(); err != nil {
		return err
	}
	return b.work.Renew()
}

// continueRestore completes a restore whose process was killed. The branch must be locked.
func (b *Branch) continueRestore() error {
	r, err := b.saves().Begun()
	if r == nil {
		return nil
	}
	if err == nil {
		err = b.restore(r)
	}
	if err != nil {
		return fmt.Errorf("the restore of checkpoint %d of the branch %s was interrupted and cannot be completed: %w. To give it up, remove %s", r.Number, b.Name, err, b.saves().RestoreFile())
	}
	return nil
}

// restore restores the layer from a checkpoint. It can be repeated after a kill.
func (b *Branch) restore(r *checkpoint.Restore) error {
	if err := b.saves().Exchange(r); err != nil {
		return err
	}
	return b.saves().End(r)
}

// Preview returns the changes that a restore of a checkpoint would make in the branch, as a list and as a diff of about
// limit bytes.
func (b *Branch) Preview(number int, rules CheckpointRules, limit int) ([]change.Change, string, error) {
	return b.saves().Preview(number, rules, limit)
}

// Undoable returns the checkpoint to which an undo goes back, and the calls that it would undo; see
// [checkpoint.Set.Undoable].
func (b *Branch) Undoable(to string, steps int, rules CheckpointRules) (*Checkpoint, []Checkpoint, error) {
	return b.saves().Undoable(to, steps, rules)
}
