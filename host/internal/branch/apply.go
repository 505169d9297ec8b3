package branch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
)

// Selection selects the changes of an apply.
type Selection struct {
	// Paths limits the apply to these paths and what is below them. Empty means all changes.
	Paths []string
	// Ours lists paths with conflicts whose content the branch decides. Theirs lists paths whose content the workspace
	// decides; the branch then gives up its change.
	Ours, Theirs []string
	// Before is called when it is certain that the base will be changed. An error stops the apply. Before can be nil.
	Before func() error
}

// Outcome describes an apply or a revert.
type Outcome struct {
	// Number identifies the apply among those of the branch.
	Number  int      `json:"number"`
	Changes []Change `json:"changes"`
	// Left lists the changes that stay in the layer, because they are never applied or were not selected.
	Left []Change `json:"left,omitempty"`
	// Into is the branch that received the changes. Empty means the workspace.
	Into string `json:"into,omitempty"`
	// Notes are messages for people.
	Notes []string `json:"notes,omitempty"`

	partial bool // whether something stays in the layer
}

// ConflictError means that nothing was changed, because both the branch and the workspace changed the same paths.
type ConflictError struct {
	Name      string
	Conflicts []Change
}

// maxConflicts is the maximum number of conflicts in the text of an error.
const maxConflicts = 50

func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nothing was applied, because the branch %s and the workspace both changed:", e.Name)
	for i, c := range e.Conflicts {
		if i == maxConflicts {
			fmt.Fprintf(&b, "\n  and %d more; for a list, run: toolhost branch diff %s --stat", len(e.Conflicts)-i, e.Name)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s", c.Path, c.Conflict)
	}
	fmt.Fprintf(&b, "\nFor each path, choose the side that is kept: toolhost branch apply %s --ours PATH (the branch) or --theirs PATH (the workspace)", e.Name)
	return b.String()
}

// Apply makes the changes of a branch in its base: all, or none if there is a conflict. The branch must not be mounted.
// The displaced files are kept, so that [Store.Revert] can take the apply back.
func (s *Store) Apply(b *Branch, sel Selection) (*Outcome, error) {
	release, err := s.exclusive(b)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := b.asShown(); err != nil {
		return nil, err
	}
	if b.Of != "" {
		return s.adoptWhole(b, sel)
	}
	checked, err := b.tick()
	if err != nil {
		return nil, fmt.Errorf("the branch %s cannot be applied: %w", b.Name, err)
	}
	all, err := b.survey()
	if err != nil {
		return nil, err
	}
	defer all.close()
	steps, out, err := sel.plan(b, all)
	if err != nil || len(out.Changes) == 0 {
		return out, err
	}
	if sel.Before != nil {
		if err := sel.Before(); err != nil {
			return nil, err
		}
	}
	for _, dir := range all.unite {
		if err := unix.Lremovexattr(filepath.Join(b.Layer(), dir), opaqueMark); err != nil && !errors.Is(err, unix.ENODATA) {
			return nil, fmt.Errorf("the branch %s cannot be applied: %s: %w", b.Name, dir, err)
		}
	}
	j := &journal{progress: progress{State: applying}, At: time.Now(), Checked: checked, Steps: steps, Since: b.Since, Renewed: b.Renewed, Locks: b.locksFor(steps)}
	if len(out.Left) == 0 && !out.partial {
		var st unix.Stat_t
		if err := unix.Lstat(b.Layer(), &st); err != nil {
			return nil, err
		}
		j.Whole = st.Ino
	}
	if out.Number, err = b.begin(j); err != nil {
		return nil, fmt.Errorf("the branch %s cannot be applied: %w", b.Name, err)
	}
	err = b.run(j, true)
	if err == nil {
		for _, g := range all.repos {
			err = errors.Join(err, g.keepAncestors())
		}
	}
	return out, err
}

// exclusive locks the branch and its base, and completes what a killed process began.
func (s *Store) exclusive(b *Branch) (release func(), err error) {
	base, err := s.lockBase(b.Base)
	if err != nil {
		return nil, err
	}
	lock, err := waitLock(b)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	release = func() { _, _ = lock.Close(), base.Close() }
	if err := errors.Join(b.check(), b.recover(s.Guard)); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// order returns the position of a step: first directories become writable, and at last others become read-only. The objects
// of git come before what refers to them, so that git works between the steps of a killed apply.
func order(s *step) int {
	switch {
	case s.Op != OpMetadata && strings.Contains("/"+s.Path+"/", "/.git/objects/"):
		return 1
	case s.Op != OpMetadata:
		return 2
	case s.Mode&0o200 != 0:
		return 0
	}
	return 3
}

// recover completes an apply or a revert during which a process was killed. See [Store.Guard]. The branch must be locked.
func (b *Branch) recover(guard Guard) error {
	if err := b.continueRestore(); err != nil {
		return err
	}
	all, err := b.journals()
	if err != nil {
		return fmt.Errorf("the journal of the branch %s cannot be read: %w. Its directory is %s", b.Name, err, b.dir)
	}
	for _, j := range all {
		switch j.State {
		case applying:
			err = b.complete(j, guard)
		case undoing:
			err = b.undo(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// complete makes the rest of the steps of a journal.
func (b *Branch) complete(j *journal, guard Guard) error {
	if guard != nil {
		after, err := guard(b.Base)
		if err != nil {
			return fmt.Errorf("the apply of the branch %s, which was interrupted, cannot be completed: %w", b.Name, err)
		}
		defer after()
	}
	return b.run(j, false)
}

// run makes all steps of a journal that were not made yet. If a step fails, it takes back all steps. If fresh is true, none
// was made yet.
func (b *Branch) run(j *journal, fresh bool) error {
	x, err := b.newExchange(j)
	if err != nil {
		return err
	}
	defer x.close()
	x.fresh = fresh
	failed := x.lock(fresh)
	for i := range j.Steps {
		if failed != nil {
			break
		}
		killed()
		if err := x.forward(i); err != nil {
			failed = fmt.Errorf("nothing was applied, because %s could not be changed: %w", j.Steps[i].Path, err)
		}
	}
	if failed != nil {
		if err := j.record(undoing); err != nil {
			return errors.Join(failed, err)
		}
		return errors.Join(failed, b.undo(j))
	}
	x.unlock()
	killed()
	if err := b.finish(j, applied); err != nil {
		return fmt.Errorf("all changes of the branch %s are made, but the end of the apply cannot be recorded: %w. Free space on the disk, and repeat the command, which records it", b.Name, err)
	}
	return x.sync()
}

// undo takes back all steps of a journal that were made.
func (b *Branch) undo(j *journal) error {
	x, err := b.newExchange(j)
	if err != nil {
		return err
	}
	defer x.close()
	if err := x.lock(false); err != nil {
		return err
	}
	for i := range slices.Backward(j.Steps) {
		killed()
		if err := x.backward(i); err != nil {
			return fmt.Errorf("the changes of the branch %s are taken back, but %s cannot be restored: %w. Its old content is %s. Move %[2]s away and repeat the command", b.Name, j.Steps[i].Path, err, x.displaced(i))
		}
	}
	if j.Whole != 0 {
		if err := x.bringBack(); err != nil {
			return fmt.Errorf("the changes of the branch %s are taken back, but they cannot return to the branch: %w. They are in %s", b.Name, err, j.upper())
		}
	}
	x.unlock()
	killed()
	if err := b.finish(j, reverted); err != nil {
		return err
	}
	return x.sync()
}

// finish records the end of an apply or of a revert. The caller must sync the file system afterwards. What changes in the
// base from now on can conflict with the layer.
func (b *Branch) finish(j *journal, state string) error {
	_ = os.Remove(filepath.Join(j.dir, reserveFile)) // it is not there if an earlier end was interrupted
	now, err := b.tick()
	if err != nil {
		return err
	}
	b.renew(j, state, now)
	switch {
	case state != applied:
	case j.Whole != 0:
		if err := b.putAway(j); err != nil {
			return err
		}
	default:
		b.prune(".")
	}
	b.Applied = 0
	if state == applied {
		b.Applied = 1
	}
	all, err := b.journals(j.dir)
	for _, o := range all {
		if o.State == applied {
			b.Applied++
		}
	}
	if empty(b.Layer()) {
		b.Since, b.Renewed = now, nil
	}
	if b.Shown != "" {
		state, failed := b.state()
		b.Shown, err = state, errors.Join(err, failed)
	}
	// The record comes first: if this process is killed between the two, the next one repeats finish.
	if err := errors.Join(err, b.write(durable.ReplaceUnsynced)); err != nil {
		return err
	}
	killed()
	return j.recordEnd(state, now)
}

// renew records that the paths of a journal were compared with the base at the time now: only later changes of the base are
// conflicts for these paths. If the apply was reverted, earlier changes of the base become conflicts again.
func (b *Branch) renew(j *journal, state string, now int64) {
	if state == reverted && j.Done != 0 && j.Since != 0 {
		b.Since, b.Renewed = j.Since, maps.Clone(j.Renewed)
	}
	if b.Renewed == nil {
		b.Renewed = make(map[string]int64)
	}
	for i := range j.Steps {
		s := &j.Steps[i]
		switch {
		case state == reverted && (s.Contested || j.Done == 0 && !b.asCompared(j, s)):
			// the conflict stays
		case s.Op == OpMetadata:
			b.Renewed[itself(s.Path)] = now // nothing below it was compared
		default:
			b.Renewed[s.Path] = now
		}
	}
}

// asCompared reports whether a path of the base is as it was when the conflicts of an apply were searched.
func (b *Branch) asCompared(j *journal, s *step) bool {
	at := filepath.Join(b.Base, s.Path)
	var st unix.Stat_t
	if unix.Lstat(at, &st) != nil {
		return s.Old.Inode == 0
	}
	now := stampFrom(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && s.Op != OpMetadata {
		return now.Inode == s.Old.Inode && newest(at, j.Checked, false) == ""
	}
	return now == s.Old || s.Op == OpMetadata
}

// prune removes the empty directories of the layer that were made only for entries which it no longer has.
func (b *Branch) prune(dir string) {
	entries, err := os.ReadDir(filepath.Join(b.Layer(), dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		upper, base := filepath.Join(b.Layer(), path), filepath.Join(b.Base, path)
		var up, lo unix.Stat_t
		if !e.IsDir() || isOpaque(upper) || unix.Lstat(base, &lo) != nil || unix.Lstat(upper, &up) != nil || lo.Mode != up.Mode || !equalAttributes(upper, base) {
			continue
		}
		b.prune(path)
		_ = os.Remove(upper) // fails if it is not empty
	}
}

func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}
