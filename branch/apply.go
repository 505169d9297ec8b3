package branch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/apply"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/journal"
	"toolhost.dev/branch/internal/killpoint"
)

// Selection selects the changes to apply.
type Selection struct {
	// Paths limits the apply to these paths and all paths below them. An empty list means all changes.
	Paths []string
	// Ours lists paths with conflicts at which the branch's content is used. Theirs lists paths at which the
	// workspace's content is kept; the branch then loses its change.
	Ours, Theirs []string
	// Shown is the text that [Branch.Review] returned when a person agreed to the apply. If Review now returns a
	// different text, nothing is changed, and the error is [ErrNotAsShown]. An empty Shown means that nobody was asked.
	Shown string
	// Allowed means that somebody who may answer permission requests agreed to the apply. Without it, an unasked branch
	// is not applied, and the error is an [UnaskedError].
	Allowed bool
	// Before is called immediately before the base is changed. An error stops the apply. Before can be nil.
	Before func() error
}

// Outcome describes an apply or a revert.
type Outcome struct {
	// Number identifies the apply in its branch.
	Number  int             `json:"number"`
	Changes []change.Change `json:"changes"`
	// GivenUp lists the changes that an apply removed from the branch, because the workspace's content was kept. For a
	// revert, it lists the changes that are in the branch again. In both cases, the workspace stays unchanged at these
	// paths.
	GivenUp []change.Change `json:"given_up,omitempty"`
	// Left lists the changes that stay in the layer, because they are never applied or were not selected.
	Left []change.Change `json:"left,omitempty"`
	// Into is the branch that received the changes. Empty means the workspace.
	Into string `json:"into,omitempty"`
	// Notes are messages for people.
	Notes []string `json:"notes,omitempty"`

	partial bool // whether changes stay in the layer
}

// ConflictError means that nothing was changed, because both the branch and the workspace changed the same paths. A
// person must choose one side for each path; see [Selection.Ours].
type ConflictError struct {
	Name      string
	Conflicts []change.Change
}

// MaxConflicts is the maximum number of conflicts in the text of a [ConflictError].
const MaxConflicts = 50

func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nothing was applied, because the branch %s and the workspace both changed:", e.Name)
	for i, c := range e.Conflicts {
		if i == MaxConflicts {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Conflicts)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s", c.Path, c.Conflict)
	}
	return b.String()
}

// UnchangedError means that a selection contains a path that the branch does not change. A new directory can only be
// selected as a whole.
type UnchangedError struct{ Name, Path string }

func (e *UnchangedError) Error() string {
	return fmt.Sprintf("the branch %s does not change %s", e.Name, e.Path)
}

// ContraryError means that a selection contains a path in both Ours and Theirs.
type ContraryError struct{ Path string }

func (e *ContraryError) Error() string {
	return fmt.Sprintf("the selection keeps both sides of %s, that of the branch and that of the workspace", e.Path)
}

// Apply makes the changes of a branch in its base. If there is a conflict, it makes none of them. The branch must not
// be mounted. Apply keeps the displaced files, so that [Store.Revert] can undo it.
func (s *Store) Apply(b *Branch, sel Selection) (*Outcome, error) {
	release, err := s.exclusive(b)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := errors.Join(b.withheld(sel.Allowed), b.intact(), b.asShown()); err != nil {
		return nil, err
	}
	if b.Of != "" {
		return s.adoptShown(b, sel)
	}
	checked, err := b.tick()
	if err != nil {
		return nil, fmt.Errorf("the branch %s cannot be applied: %w", b.Name, err)
	}
	all, err := b.survey()
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := b.stillShown(all, sel.Shown); err != nil {
		return nil, err
	}
	steps, out, err := sel.plan(b, all)
	if err != nil || len(out.Changes)+len(out.GivenUp) == 0 {
		return out, err
	}
	if sel.Before != nil {
		if err := sel.Before(); err != nil {
			return nil, err
		}
	}
	if err := b.unite(all); err != nil {
		return nil, err
	}
	j, err := b.journal(steps, len(out.Left) == 0 && !out.partial, checked)
	if err != nil {
		return nil, err
	}
	record, err := json.Marshal(b)
	if err = errors.Join(err, b.work.Outdate()); err == nil {
		out.Number, err = b.log().Begin(j, len(record))
	}
	if err != nil {
		return nil, fmt.Errorf("the branch %s cannot be applied: %w", b.Name, errors.Join(err, b.work.Renew()))
	}
	err = b.execution().Run(j, true)
	if err == nil {
		err = all.KeepAncestors()
	}
	if behind := b.work.Renew(); behind != nil {
		out.Notes = append(out.Notes, sentence(behind))
	}
	return out, err
}

// journal returns the journal of a new apply. The argument "whole" means that nothing stays in the layer.
func (b *Branch) journal(steps []journal.Step, whole bool, checked int64) (*journal.Journal, error) {
	j := &journal.Journal{
		Progress: journal.Progress{State: journal.Applying}, At: time.Now(), Checked: checked, Steps: steps,
		Since: b.Since, Renewed: b.Renewed, SetBack: b.clockSetBack(), Locks: b.log().LocksFor(steps),
	}
	if whole {
		var st unix.Stat_t
		if err := unix.Lstat(b.Layer(), &st); err != nil {
			return nil, err
		}
		j.Whole = st.Ino
	}
	return j, nil
}

// adoptShown applies a preview of a branch as a whole, if its changes are still those that a person was shown.
func (s *Store) adoptShown(b *Branch, sel Selection) (*Outcome, error) {
	if sel.Shown != "" {
		if now, err := b.Review(); err != nil || now != sel.Shown {
			return nil, cmp.Or(err, ErrNotAsShown)
		}
	}
	return s.adoptWhole(b, sel)
}

// stillShown returns [ErrNotAsShown] if the changes differ from those that a person was shown. If the argument "shown"
// is empty, no changes were shown to anyone.
func (b *Branch) stillShown(all *change.Survey, shown string) error {
	if shown == "" {
		return nil
	}
	if now, err := b.review(all); err != nil || now != shown {
		return cmp.Or(err, ErrNotAsShown)
	}
	return nil
}

// unite removes the marks of directories that must no longer hide the directories of the base.
func (b *Branch) unite(all *change.Survey) error {
	for _, dir := range all.Unite {
		if err := unix.Lremovexattr(filepath.Join(b.Layer(), dir), filetree.OpaqueMark); err != nil &&
			!errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("the branch %s cannot be applied: %s: %w", b.Name, dir, err)
		}
	}
	return nil
}

// plan returns the steps for the selected changes. It returns a [ConflictError] if a selected change has a conflict and
// the selection does not decide the conflict.
func (sel *Selection) plan(b *Branch, all *change.Survey) ([]journal.Step, *Outcome, error) {
	choice := apply.Choice{Paths: sel.Paths, Ours: sel.Ours, Theirs: sel.Theirs}
	p, err := apply.NewPlan(choice, apply.Branch{Base: b.Base, Layer: b.Layer()}, all)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case p.Contrary != "":
		return nil, nil, &ContraryError{Path: p.Contrary}
	case p.Unchanged != "":
		return nil, nil, &UnchangedError{Name: b.Name, Path: p.Unchanged}
	case len(p.Conflicts) > 0:
		return nil, nil, &ConflictError{Name: b.Name, Conflicts: p.Conflicts}
	}
	return p.Steps, &Outcome{Changes: p.Changes, GivenUp: p.GivenUp, Left: p.Left, Notes: p.Notes, partial: p.Partial},
		nil
}

// execution returns the means to make changes in the base. The branch and its base must be locked.
func (b *Branch) execution() apply.Execution {
	return apply.Execution{Name: b.Name, Log: b.log(), Finish: b.finish}
}

// log returns the journals of the branch.
func (b *Branch) log() journal.Log {
	return journal.Log{Dir: filepath.Join(b.dir, appliedDir), Base: b.Base, Layer: b.Layer()}
}

// interrupted reports whether an apply or a revert of the branch is incomplete because its process was killed.
func (b *Branch) interrupted() (bool, error) {
	all, err := b.journals()
	return slices.ContainsFunc(all,
		func(j *journal.Journal) bool { return j.State == journal.Applying || j.State == journal.Undoing }), err
}

// journals returns the journals of the branch.
func (b *Branch) journals() ([]*journal.Journal, error) {
	all, err := b.log().Journals()
	if err != nil {
		return nil, fmt.Errorf("the journal of the branch %s cannot be read: %w. Its directory is %s", b.Name, err, b.dir)
	}
	return all, nil
}

// recover completes an apply or a revert whose process was killed. See [Store.Guard]. The branch and its base must be
// locked.
func (b *Branch) recover(guard Guard) error {
	if err := b.continueRestore(); err != nil {
		return err
	}
	all, err := b.journals()
	if err != nil {
		return err
	}
	for _, j := range all {
		switch j.State {
		case journal.Applying:
			err = b.complete(j, guard)
		case journal.Undoing:
			err = b.execution().Undo(j)
		}
		if err != nil {
			return err
		}
	}
	return b.work.Renew()
}

// complete makes the remaining steps of a journal.
func (b *Branch) complete(j *journal.Journal, guard Guard) (err error) {
	if guard != nil {
		after, err := guard(b.Base)
		if err != nil {
			return fmt.Errorf("the apply of the branch %s, which was interrupted, cannot be completed: %w", b.Name, err)
		}
		defer func() {
			if after() && err == nil {
				err = b.settle(j)
			}
		}()
	}
	return b.execution().Run(j, false)
}

// finish records the end of an apply or of a revert. The caller must sync the file system afterwards. Later changes of
// the base can conflict with the layer.
func (b *Branch) finish(j *journal.Journal, state string) error {
	j.Release()
	now, err := b.tick()
	if err != nil {
		return err
	}
	paths, dirs := b.renew(j, state, now)
	if err := b.work.RenewVersions(paths, dirs); err != nil {
		return err
	}
	if state == journal.Reverted {
		_ = b.layer().Record(paths) // ignore the error: the branch can still be applied, but without merges
	}
	b.Applied = 0
	if state == journal.Applied {
		if err := b.execution().Clear(j); err != nil {
			return err
		}
		b.Applied = 1
	}
	all, err := b.log().Journals(j)
	for _, o := range all {
		if o.State == journal.Applied {
			b.Applied++
		}
	}
	if filetree.IsEmpty(b.Layer()) {
		b.derivation = derivation{Since: now} // all changes of the base are seen
		b.watchClock()
	}
	if b.Shown != "" {
		state, failed := b.State()
		b.Shown, err = state, errors.Join(err, failed)
	}
	// Write the record of the branch before the end of the journal. If this process is killed in between, the next
	// process repeats finish.
	if err := errors.Join(err, b.write(durable.ReplaceUnsynced)); err != nil {
		return err
	}
	killpoint.Pass()
	return j.RecordEnd(state, now)
}
