package branch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
	"toolhost.dev/branch/internal/journal"
)

// Revert undoes the last apply of a branch. The base gets its old files back, and the layer gets its changes back.
// Revert changes nothing if the workspace or the branch has changed one of the paths since the apply.
func (s *Store) Revert(b *Branch) (*Outcome, error) {
	release, err := s.exclusive(b)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := b.work.Gather(); err != nil {
		return nil, err
	}
	all, err := b.log().Journals()
	if err != nil {
		return nil, err
	}
	var last *journal.Journal
	for _, j := range all {
		if j.State == journal.Applied {
			last = j
		}
	}
	if last == nil {
		return nil, fmt.Errorf("the branch %s has no apply that can be reverted", b.Name)
	}
	if err := last.Load(); err != nil {
		return nil, fmt.Errorf("the journal of the branch %s cannot be read: %w", b.Name, err)
	}
	x, err := b.log().Exchange(last)
	if err != nil {
		return nil, err
	}
	problems := x.Revertible()
	if b.clockSetBack() || b.Copy == nil && last.Done > time.Now().UnixNano()+maxBack {
		problems = append(problems, "the clock of the machine was set back, so it cannot be told what changed since the apply. What the apply displaced is in "+filepath.Join(b.dir, appliedDir))
	}
	if len(problems) == 0 {
		err = x.Lock(true)
	}
	x.Close()
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("nothing was reverted, because these paths changed since the branch %s was applied:\n  %s\nMove them away, or restore them from version control, and repeat the command", b.Name, strings.Join(problems, "\n  "))
	}
	if err := errors.Join(x.Rewrite(), b.work.Outdate(), last.Record(journal.Undoing)); err != nil {
		return nil, err
	}
	out := &Outcome{Changes: []change.Change{}}
	for i := range last.Steps {
		switch step := &last.Steps[i]; {
		case !step.Drop:
			out.Changes = append(out.Changes, step.Change)
		case !gitstate.IsIndex(step.Path):
			out.GivenUp = append(out.GivenUp, step.Change)
		}
	}
	return out, errors.Join(b.execution().Undo(last), b.work.Renew())
}

// Settle records which files a guard removed from the base after the last apply of a branch. Without this record,
// Revert would return an error, because it would treat the removals as changes that somebody else made.
func (s *Store) Settle(b *Branch) error {
	release, err := s.exclusive(b)
	if err != nil {
		return err
	}
	defer release()
	all, err := b.log().Journals()
	if err != nil {
		return err
	}
	for _, j := range slices.Backward(all) {
		if j.State == journal.Applied {
			return b.settle(j)
		}
	}
	return nil
}

func (b *Branch) settle(j *journal.Journal) error {
	if j.State != journal.Applied {
		return nil
	}
	if err := j.Load(); err != nil {
		return err
	}
	x, err := b.log().Exchange(j)
	if err != nil {
		return err
	}
	defer x.Close()
	err = x.MarkGone()
	now, tickErr := b.tick()
	if err = errors.Join(err, tickErr); err == nil {
		err = errors.Join(j.RecordEnd(journal.Applied, now), x.Sync())
	}
	if err != nil {
		return fmt.Errorf("the branch %s is applied, but what was moved to the quarantine cannot be recorded, so a revert of it will refuse: %w", b.Name, err)
	}
	return nil
}

// Accept declares that a layer is complete although the machine stopped while the layer was in use.
func (s *Store) Accept(b *Branch) error {
	lock, err := b.lock()
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	if err := filetree.RemoveAll(filepath.Join(b.dir, workDir)); err != nil {
		return err
	}
	b.Boot = ""
	return errors.Join(os.Mkdir(filepath.Join(b.dir, workDir), 0o700), b.save())
}
