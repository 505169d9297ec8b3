package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/journal"
	"toolhost.dev/branch/internal/killpoint"
)

// Execution makes the steps of journals in the base of a branch.
type Execution struct {
	// Name is the name of the branch, for messages.
	Name string
	Log  journal.Log
	// Finish records in the branch that an apply or a revert is complete, and then in the journal.
	Finish func(j *journal.Journal, state string) error
}

// Run makes all steps of a journal that are not yet made. If a step fails, Run undoes all steps. If fresh is true, none
// of the steps is made yet.
func (e Execution) Run(j *journal.Journal, fresh bool) error {
	x, err := e.Log.Exchange(j)
	if err != nil {
		return err
	}
	defer x.Close()
	x.Fresh = fresh
	failed := x.Lock(fresh)
	for i := range j.Steps {
		if failed != nil {
			break
		}
		killpoint.Pass()
		if err := x.Forward(i); err != nil {
			failed = fmt.Errorf("nothing was applied, because %s could not be changed: %w", j.Steps[i].Path, err)
		}
	}
	if failed != nil {
		if err := j.Record(journal.Undoing); err != nil {
			return errors.Join(failed, err)
		}
		return errors.Join(failed, e.Undo(j))
	}
	x.Unlock()
	killpoint.Pass()
	if err := e.Finish(j, journal.Applied); err != nil {
		return fmt.Errorf("all changes of the branch %s are made, but the end of the apply cannot be recorded: %w. Free space on the disk, and repeat the command, which records it", e.Name, err)
	}
	return x.Sync()
}

// Undo undoes all steps of a journal that were made.
func (e Execution) Undo(j *journal.Journal) error {
	x, err := e.Log.Exchange(j)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := x.Lock(false); err != nil {
		return err
	}
	for i := range slices.Backward(j.Steps) {
		killpoint.Pass()
		if err := x.Backward(i); err != nil {
			return fmt.Errorf("the changes of the branch %s are taken back, but %s cannot be restored: %w. Its old content is %s. Move %[2]s away and repeat the command", e.Name, j.Steps[i].Path, err, x.Displaced(i))
		}
	}
	if j.Whole != 0 {
		if err := x.BringBack(); err != nil {
			return fmt.Errorf("the changes of the branch %s are taken back, but they cannot return to the branch: %w. They are in %s", e.Name, err, j.Upper())
		}
	}
	x.Unlock()
	killpoint.Pass()
	if err := e.Finish(j, journal.Reverted); err != nil {
		return err
	}
	return x.Sync()
}

// Clear removes from the layer what an apply has left there: displaced files of the base, and directories that have
// become empty.
func (e Execution) Clear(j *journal.Journal) error {
	if j.Whole != 0 {
		return e.Log.PutAway(j)
	}
	e.prune(".")
	return nil
}

// prune removes directories of the layer that have become empty, because they existed only for entries that were moved
// out of the layer.
func (e Execution) prune(dir string) {
	entries, err := os.ReadDir(filepath.Join(e.Log.Layer, dir))
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		upper, base := filepath.Join(e.Log.Layer, path), filepath.Join(e.Log.Base, path)
		var up, lo unix.Stat_t
		if opaque, err := filetree.IsOpaque(upper); !entry.IsDir() || opaque || err != nil ||
			unix.Lstat(base, &lo) != nil || unix.Lstat(upper, &up) != nil || lo.Mode != up.Mode ||
			!filetree.EqualAttributes(upper, base) {
			continue
		}
		e.prune(path)
		_ = os.Remove(upper) // fails if the directory is not empty
	}
}
