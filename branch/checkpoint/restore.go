package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// restoreFile is the name of the file that describes an incomplete restore.
const restoreFile = "restore.json"

// Restore describes a restore that was begun. If its process is killed, the next process that uses the branch
// completes the restore.
type Restore struct {
	Number int `json:"number"`
	// Saved is the number of the checkpoint that was made before the restore.
	Saved int  `json:"saved"`
	Undo  bool `json:"undo"`
	// Stay lists paths of the layer that stay unchanged. The [target] has the same paths.
	Stay [][]byte `json:"stay,omitempty"`
	// SkipIgnored is set only by older versions of the program, which do not set Stay.
	SkipIgnored bool `json:"skip_ignored,omitempty"`
}

// Restored describes the result of a restore.
type Restored struct {
	// To is the checkpoint that was restored. Saved is the checkpoint of the branch's state before the restore.
	To    *Checkpoint `json:"restored"`
	Saved *Checkpoint `json:"saved"`
	// Stay lists files and directories that were not changed, because git ignores them and they are too large for a
	// checkpoint. Lost lists such paths that no longer exist in the branch.
	Stay []string `json:"stay,omitempty"`
	Lost []string `json:"lost,omitempty"`
	// Ended is the reason why the programs of the branch had to end. Empty means that they still run.
	Ended string `json:"ended,omitempty"`
	// Jobs describes the jobs that still run. The caller of Restore can set it.
	Jobs []string `json:"jobs,omitempty"`
}

// Notes returns sentences about the paths that were not restored.
func (r *Restored) Notes() (out []string) {
	const ignored = "Git ignores these paths, and they are too large for a checkpoint. "
	if len(r.Stay) > 0 {
		out = append(out, ignored+"They stay as they are: "+some(r.Stay)+".")
	}
	if len(r.Lost) > 0 {
		out = append(out, ignored+"What the branch changed in them is lost: "+some(r.Lost)+".")
	}
	return out
}

// some joins paths for a message. It shows only the first paths and the number of the remaining ones.
func some(paths []string) string {
	const shown = 10
	text := change.QuotePath(strings.Join(paths[:min(len(paths), shown)], ", "))
	if more := len(paths) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Plan returns the restore of a checkpoint, and its result. Saved must be the newest checkpoint, and one of the current
// layer. If undo is true, the restored checkpoint and all later ones are marked as undone.
func (s *Set) Plan(to, saved *Checkpoint, undo bool) (*Restore, *Restored, error) {
	entries, err := s.Manifest(to.Number)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.target(to, entries, leftOut(s.Newest.entries))
	if err != nil {
		return nil, nil, err
	}
	r := &Restore{Number: to.Number, Saved: saved.Number, Undo: undo}
	for _, path := range t.stay {
		r.Stay = append(r.Stay, []byte(path))
	}
	return r, &Restored{To: to, Saved: saved, Stay: t.stay, Lost: t.lost}, nil
}

// RestoreFile returns the path of the file that describes a begun restore.
func (s *Set) RestoreFile() string { return filepath.Join(s.Dir, restoreFile) }

// Begin records that a restore begins. The record is on disk when Begin returns.
func (s *Set) Begin(r *Restore) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Replace(s.RestoreFile(), text)
}

// Begun returns the restore that was begun and is not complete, or nil. A restore whose record cannot be read is
// returned with an error.
func (s *Set) Begun() (*Restore, error) {
	text, err := os.ReadFile(s.RestoreFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no restore is the usual case
	}
	r := &Restore{}
	return r, errors.Join(err, json.Unmarshal(text, r))
}

// GiveUp removes the record of a restore that has not changed the layer.
func (s *Set) GiveUp() error { return os.Remove(s.RestoreFile()) }

// target returns the result that the restore must have.
func (r *Restore) target(s *Set) (*target, error) {
	entries, err := s.Manifest(r.Number)
	if err != nil {
		return nil, err
	}
	if r.SkipIgnored {
		return s.target(&Checkpoint{Ignored: 1}, entries, nil)
	}
	t := &target{}
	for _, path := range r.Stay {
		t.stay = append(t.stay, string(path))
	}
	t.entries = t.restorable(entries)
	return t, nil
}

// Exchange makes a new layer from a checkpoint, and exchanges the layer with it. The branch must not be mounted.
// Exchange can be repeated after a kill.
func (s *Set) Exchange(r *Restore) error {
	t, err := r.target(s)
	if err != nil {
		return err
	}
	if err := removeFresh(s.Dir); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return err
	}
	defer filetree.RemoveAll(fresh) //nolint:errcheck // it has only the old layer after the exchange below
	next := filepath.Join(fresh, upperDir)
	if err := s.rebuild(next, t); err != nil {
		return err
	}
	killpoint.Pass()
	if err := s.Copy.Outdate(); err != nil {
		return err
	}
	if err := filetree.ExchangePaths(next, s.Layer); err != nil {
		return err
	}
	killpoint.Pass()
	return s.Copy.Renew()
}

// End records that a restore is complete.
func (s *Set) End(r *Restore) error {
	if r.Undo {
		if err := s.markUndone(r); err != nil {
			return err
		}
	}
	killpoint.Pass()
	return s.GiveUp()
}

// markUndone marks the restored checkpoint and all later ones as undone.
func (s *Set) markUndone(r *Restore) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	for i := range all {
		if c := &all[i]; c.Number >= r.Number && !c.Undone {
			c.Undone = true
			if err := s.relabel(c); err != nil {
				return err
			}
		}
	}
	return nil
}
