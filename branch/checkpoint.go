package branch

import (
	"errors"
	"fmt"
	"os"

	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/filetree"
)

// Checkpoint is a copy of the layer of a branch.
type Checkpoint = checkpoint.Checkpoint

// CheckpointRules limits the checkpoints of a branch. The zero value stores everything and limits nothing.
type CheckpointRules = checkpoint.Rules

// NoRoomError means that a checkpoint was not made, because the stored contents would exceed the limit.
type NoRoomError = checkpoint.NoRoomError

// Restored describes the result of a restore.
type Restored = checkpoint.Restored

// saves returns the checkpoints of the branch.
func (b *Branch) saves() *checkpoint.Set {
	return &checkpoint.Set{Branch: b.Name, Dir: b.dir, Base: b.Base, Layer: b.Layer(), Copy: b.work, Newest: &b.newest}
}

// Checkpoints lists the checkpoints of a branch, the oldest first.
func (b *Branch) Checkpoints() ([]Checkpoint, error) { return b.saves().List() }

// FindCheckpoint returns a checkpoint of the branch. Number 0 means the last one. If it does not exist, the error is a
// [checkpoint.NotFoundError].
func (b *Branch) FindCheckpoint(number int) (*Checkpoint, error) { return b.saves().Find(number) }

// checkpoint makes a checkpoint of the layer. The branch must be locked.
func (b *Branch) checkpoint(c Checkpoint, rules CheckpointRules) (*Checkpoint, error) {
	if err := b.work.Gather(); err != nil {
		return nil, err
	}
	return b.saves().Make(c, rules, b.derived())
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
		m.Branch.saves().Skip(command)
	}
	return c, err
}
