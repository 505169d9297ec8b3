// Package commit changes one or several files atomically. It records the change in the history for a later undo.
// Every tool that changes files uses this package.
package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/history"
)

// Step is the change of one file.
type Step struct {
	Path workspace.Path
	// Before is the file as the tool read it. A nil Before means that the file must not exist.
	Before *workspace.Snapshot
	// After is the new content of the file. It is ignored if Remove is true.
	After  []byte
	Remove bool
	// Perm is the mode of a new file before the umask. 0 means 0666.
	Perm fs.FileMode
	// Mode is the exact new mode. If Mode is nil, an existing file keeps its mode and a new file is created with
	// Perm.
	Mode *fs.FileMode
	// Attributes are the attributes to set on a new file. A nil value sets no attributes.
	Attributes *workspace.Attributes
}

// Commit is a change of several files. Each step must change a different file. Steps can be empty if Moves is not
// empty.
type Commit struct {
	Session string
	// Tool is the name of the tool that makes the change. Title describes the change in the history, such as "edit
	// main.go".
	Tool, Title string
	Steps       []Step

	// Meanwhile is called after all files are changed, while the change is made durable. Apply waits for Meanwhile and
	// repeats its panic. Meanwhile can be nil.
	Meanwhile func()

	// Moves contains the changes that this commit undoes (if To is history.Undone) or redoes (if To is history.Done).
	Moves []int64
	To    history.State
}

// Done is the result of a commit.
type Done struct {
	// Written has one element for each step. The element is nil for a removed file.
	Written []*workspace.Written
	// Effects contains the effects that the tool must report to the host.
	Effects []tool.Effect
	// Lost is the reason why the change cannot be undone. It is empty if the change can be undone.
	Lost string
}

// Committer writes changes and records them in the history.
type Committer struct{ History *history.Store }

// Lock locks files. It returns a function that releases the lock. Callers must lock the files before they read them,
// and hold the lock until the files are written. If a killed process left unfinished changes of these files, Lock
// completes or reverts these changes before it returns.
func (c *Committer) Lock(ctx context.Context, ws *workspace.Workspace,
	paths ...workspace.Path) (unlock func(), err error) {
	if unlock, err = ws.Lock(ctx, paths...); err != nil {
		return nil, err
	}
	if err := c.recover(ctx, ws, paths); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Apply makes a change. The caller must have locked the files. If Apply fails, all files keep their old content,
// unless the error reports otherwise. If the history cannot be written, Apply fails only if the change has Moves; it
// makes any other change without a record.
func (c *Committer) Apply(ctx context.Context, ws *workspace.Workspace, m Commit) (*Done, error) {
	noted := note(ws, m)
	gone := make([]*workspace.Attributes, len(m.Steps))
	for i := range gone {
		gone[i] = noted.Files[i].Before.Attributes
	}
	dirs, hashes := noted.Dirs, make([]func() [sha256.Size]byte, len(m.Steps))
	for i, s := range m.Steps {
		hashes[i] = sync.OnceValue(func() [sha256.Size]byte { return sha256.Sum256(s.After) })
	}
	noting := c.begin(ctx, noted, hashes)
	ready := func() error { _, err := noting(); return err }
	// From this point on, the change is completed or reverted even if ctx ends.
	after := context.WithoutCancel(ctx)
	var meanwhile sync.WaitGroup
	var unfinished error
	var panicked any
	finish := func() {
		if m.Meanwhile != nil {
			meanwhile.Go(func() {
				defer func() { panicked = recover() }() // Apply repeats the panic after the change is made and recorded
				m.Meanwhile()
			})
		}
		if lost, err := noting(); err == nil && lost == "" {
			meanwhile.Go(func() { unfinished = c.finish(after, ws, m.Steps, noted) })
		}
	}
	var done *Done
	var err error
	if len(dirs) > 0 {
		err = ready() // call ready immediately before the directories are created
	}
	if err == nil {
		done, err = write(ctx, ws, m.Steps, hashes, ready, finish)
	}
	lost, failed := noting()
	if failed != nil {
		return nil, failed
	}
	if lost != "" {
		noted = nil
	}
	meanwhile.Wait()
	if err != nil {
		if back := putBack(after, ws, m.Steps, gone, done); back != nil {
			// The change stays unfinished in the history. The next call that locks the files tries again to revert
			// the change.
			return nil, tool.Errorf(tool.AsError(err).Kind, "%w The files that were already written could not be restored either: %v", err, back)
		}
		RemoveDirs(ws, dirs)
		if noted != nil {
			_ = c.History.Abandon(after, noted) // ignore the error, because the next call that locks the files also tries to abandon the change
		}
		if e := tool.AsError(err); slices.ContainsFunc(done.Effects,
			func(e tool.Effect) bool { return e.Operation != "" }) {
			return nil, tool.Errorf(e.Kind, "%s The other files of the change were restored, so no file is changed.", e.Message).WithCode(e.Code).WithCause(err)
		}
		return nil, err
	}
	if panicked != nil {
		panic(panicked)
	}
	if unfinished != nil {
		lost = unfinished.Error()
	}
	done.Lost = lost
	return done, nil
}

// finish records in the history that the change was made.
func (c *Committer) finish(ctx context.Context, ws *workspace.Workspace, steps []Step, noted *history.Change) error {
	for i, s := range steps {
		lookUpMode(ws, s.Path, &noted.Files[i])
	}
	return c.History.Finish(ctx, noted)
}

// begin records a change in the history while the files of the change are staged. The returned function waits for the
// record. The result "lost" of that function is the reason why the change was not recorded. If that function returns an
// error, the caller must not make the change.
func (c *Committer) begin(ctx context.Context, noted *history.Change,
	hashes []func() [sha256.Size]byte) func() (lost string, err error) {
	result := make(chan error, 1)
	go func() {
		staged := make(chan error, 1)
		go func() { staged <- c.History.Stage(noted) }()
		for i := range noted.Files {
			if after := &noted.Files[i].After; after.Exists {
				after.Hash = hashes[i]()
			}
		}
		if err := <-staged; err != nil {
			result <- err
			return
		}
		result <- c.History.Begin(ctx, noted)
	}()
	return sync.OnceValues(func() (string, error) {
		err := <-result
		switch {
		case err == nil:
			return "", nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case len(noted.Moves) > 0:
			return "", err
		case errors.Is(err, history.ErrTooLarge):
			return "the change is larger than the history's limit of " + text.FormatSize(c.History.Limit()), nil
		}
		return err.Error(), nil
	})
}

// note creates the history record of a commit. The hashes of the new contents are not yet set.
func note(ws *workspace.Workspace, m Commit) *history.Change {
	c := &history.Change{Session: m.Session, Tool: m.Tool, Title: m.Title, Moves: m.Moves, To: m.To}
	for _, s := range m.Steps {
		f := history.File{Path: s.Path.String()}
		if s.Before != nil {
			f.Before = history.Known(s.Before.Hash(), s.Before.Data, s.Before.Mode)
		}
		if s.Remove {
			f.Before.Attributes = attributes(ws, s.Path)
		} else {
			f.After = history.Version{Exists: true, Mode: f.Before.Mode}
			if s.Mode != nil {
				f.After.Mode = *s.Mode
			}
		}
		c.Files = append(c.Files, f)
		if s.Before == nil && !s.Remove {
			c.Dirs = append(c.Dirs, missingDirs(ws, s.Path, c.Dirs)...)
		}
	}
	return c
}

// attributes returns the attributes of a file that will be removed.
func attributes(ws *workspace.Workspace, p workspace.Path) *workspace.Attributes {
	a, err := ws.Attributes(p)
	if err != nil { // ignore the error, because the removal will report it
		return nil
	}
	return a
}

// missingDirs returns the directories that must be created for a file, the outermost directory first.
func missingDirs(ws *workspace.Workspace, p workspace.Path, known []string) []string {
	var dirs []string
	for dir := ws.Parent(p); dir.Rel() != "."; dir = ws.Parent(dir) {
		if _, err := ws.Stat(dir); !errors.Is(err, fs.ErrNotExist) || slices.Contains(known, dir.String()) {
			break
		}
		dirs = append(dirs, dir.String())
	}
	slices.Reverse(dirs)
	return dirs
}

// lookUpMode records the mode of a file that the change has created.
func lookUpMode(ws *workspace.Workspace, p workspace.Path, f *history.File) {
	if f.Before.Exists || !f.After.Exists {
		return
	}
	if info, err := ws.Stat(p); err == nil {
		f.After.Mode = info.Mode()
	}
}

// write performs the steps. It removes files last, so that no failure loses content. It changes no file before the
// function "ready" returns. After all files are changed, it calls the function "made".
func write(ctx context.Context, ws *workspace.Workspace, steps []Step, hashes []func() [sha256.Size]byte,
	ready func() error, made func()) (*Done, error) {
	done := &Done{Written: make([]*workspace.Written, len(steps)), Effects: make([]tool.Effect, len(steps))}
	left := len(steps)
	changed := func() {
		if left--; left == 0 {
			made()
		}
	}
	if left == 0 {
		if err := ready(); err != nil {
			return done, err
		}
		made()
	}
	for _, removing := range []bool{false, true} {
		for i, s := range steps {
			if s.Remove != removing {
				continue
			}
			if s.Remove {
				if err := ready(); err != nil {
					return done, err
				}
				if err := ws.Remove(ctx, s.Path, s.Before); err != nil {
					return done, err
				}
				done.Effects[i] = removed(s.Before)
				changed()
				continue
			}
			w, err := ws.WriteFile(ctx, s.Path, s.After, workspace.WriteOptions{
				Expect: s.Before, New: s.Before == nil, Parents: true, Hash: hashes[i], Perm: s.Perm, Mode: s.Mode,
				Ready: ready, Changed: changed, Attributes: s.Attributes,
			})
			if err != nil {
				return done, err
			}
			done.Written[i], done.Effects[i] = w, w.Effect()
		}
	}
	return done, nil
}

func removed(was *workspace.Snapshot) tool.Effect {
	hash := was.Hash()
	return tool.Effect{Operation: tool.OpDelete, File: was.State(), HashBefore: &hash}
}

// putBack reverts the performed steps. It skips files that another program has changed after the step. The argument
// "gone" contains the attributes of the removed files.
func putBack(ctx context.Context, ws *workspace.Workspace, steps []Step, gone []*workspace.Attributes,
	done *Done) error {
	var failed []string
	for i, s := range steps {
		if done.Effects[i].Operation == "" {
			continue
		}
		before, now := history.Version{}, history.Version{}
		if s.Before != nil {
			before = history.Known(s.Before.Hash(), s.Before.Data, s.Before.Mode)
			before.Attributes = gone[i]
		}
		if !s.Remove {
			now = history.Content(s.After, 0)
		}
		if err := restore(ctx, ws, s.Path, now, before); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", s.Path, err))
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// restore replaces the version "now" of a file by the version "to". It fails if the file differs from the version
// "now".
func restore(ctx context.Context, ws *workspace.Workspace, p workspace.Path, now, to history.Version) error {
	snap, err := Current(ws, p)
	if err != nil {
		return err
	}
	if !Matches(snap, now) {
		return tool.Errorf(tool.Conflict, "%s was changed by another program at the same time.", p)
	}
	switch {
	case !to.Exists && snap == nil:
		return nil
	case !to.Exists:
		return ws.Remove(ctx, p, snap)
	}
	_, err = ws.WriteFile(ctx, p, to.Data, workspace.WriteOptions{
		Expect: snap, New: snap == nil, Parents: true, Mode: &to.Mode, Attributes: to.Attributes,
	})
	return err
}

// Current reads a file. It returns nil if the file does not exist.
func Current(ws *workspace.Workspace, p workspace.Path) (*workspace.Snapshot, error) {
	snap, err := ws.ReadFile(p, workspace.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return snap, err
}

// Matches reports whether a snapshot of a file equals a version byte for byte.
func Matches(snap *workspace.Snapshot, v history.Version) bool {
	if snap == nil {
		return !v.Exists
	}
	return v.Exists && snap.Hash() == v.Hash
}

// RemoveDirs removes those directories of the list that are empty.
func RemoveDirs(ws *workspace.Workspace, dirs []string) {
	dirs = slices.Clone(dirs)
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) }) // innermost directories first
	for _, dir := range dirs {
		if p, err := ws.Resolve("/", dir); err == nil && p.String() == filepath.Clean(dir) {
			_ = ws.RemoveDir(p) // ignore the error: the directory is not empty
		}
	}
}
