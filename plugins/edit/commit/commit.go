// Package commit implements changes of one or several files that happen as a whole or not at all,
// and that can be undone. Every tool that changes files goes through it.
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

// Step is what becomes of one file.
type Step struct {
	Path workspace.Path
	// Before is the file as it was read; nil if there is none, and none may be there.
	Before *workspace.Snapshot
	// After are its new bytes, unless Remove is set.
	After  []byte
	Remove bool
	// Perm of a new file, before the umask; 0: 0666.
	Perm fs.FileMode
	// Mode is the exact mode afterwards; nil: an existing file keeps its own, a new one gets Perm.
	Mode *fs.FileMode
	// Attributes are for a file that is made; nil: the usual.
	Attributes *workspace.Attributes
}

// Commit is one change. No two of its steps are about the same file. Changes that it moves may
// sum up to none.
type Commit struct {
	Session string
	// Tool made the change; Title is for the history, as in "edit main.go".
	Tool, Title string
	Steps       []Step

	// Meanwhile is called once all files have changed, while that is made to last; nil if nothing is
	// to be done. Apply waits for it, and panics with what it panics with.
	Meanwhile func()

	// Moves are the changes that this one undoes (to history.Undone) or does again (to
	// history.Done).
	Moves []int64
	To    history.State
}

// Done tells how a commit went.
type Done struct {
	// Written has an element for each step; nil for a file that was removed.
	Written []*workspace.Written
	// Effects are for the host.
	Effects []tool.Effect
	// Lost says why the change cannot be undone; empty: it can be.
	Lost string
}

// Committer writes changes and keeps their history.
type Committer struct{ History *history.Store }

// Lock keeps others away from files until unlock is called: it is held from before they
// are read until they are written. What a killed process left of a change of these files
// is put back first.
func (c *Committer) Lock(ctx context.Context, ws *workspace.Workspace, paths ...workspace.Path) (unlock func(), err error) {
	if unlock, err = ws.Lock(ctx, paths...); err != nil {
		return nil, err
	}
	if err := c.recover(ctx, ws, paths); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Apply makes a change. The files are locked. When it fails, every file is as it was,
// unless the error says otherwise. A history that cannot be written to is no reason not
// to make a change, other than one that moves others.
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
	// What was begun is brought to its end, one way or the other.
	after := context.WithoutCancel(ctx)
	var meanwhile sync.WaitGroup
	var unfinished error
	var panicked any
	finish := func() {
		if m.Meanwhile != nil {
			meanwhile.Go(func() {
				defer func() { panicked = recover() }() // for the caller, when the change is made and noted
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
		err = ready() // they are made at once
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
			// Unfinished: whoever locks the files next tries again.
			return nil, tool.Errorf(tool.AsError(err).Kind, "%w Putting back what was written before failed too: %v", err, back)
		}
		RemoveDirs(ws, dirs)
		if noted != nil {
			_ = c.History.Abandon(after, noted) // else whoever locks the files next sees to it
		}
		if e := tool.AsError(err); slices.ContainsFunc(done.Effects, func(e tool.Effect) bool { return e.Operation != "" }) {
			return nil, tool.Errorf(e.Kind, "%s The other files of the change were put back; nothing is changed.", e.Message).WithCode(e.Code).WithCause(err)
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

// finish says in the history that a change was made.
func (c *Committer) finish(ctx context.Context, ws *workspace.Workspace, steps []Step, noted *history.Change) error {
	for i, s := range steps {
		lookUpMode(ws, s.Path, &noted.Files[i])
	}
	return c.History.Finish(ctx, noted)
}

// begin notes a change while its files are written beside the old ones. The function that
// it gives waits for that: lost says why the change is not noted; an error, that it must not
// be made.
func (c *Committer) begin(ctx context.Context, noted *history.Change, hashes []func() [sha256.Size]byte) func() (lost string, err error) {
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
			return "it is larger than the history, which keeps " + text.FormatSize(c.History.Limit()), nil
		}
		return err.Error(), nil
	})
}

// note makes the history's record of a commit, without the hashes of what the files become.
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

// attributes are those of a file that is about to go.
func attributes(ws *workspace.Workspace, p workspace.Path) *workspace.Attributes {
	a, err := ws.Attributes(p)
	if err != nil { // its removal says why
		return nil
	}
	return a
}

// missingDirs returns the directories that a file's creation makes, the outermost first.
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

// lookUpMode finds the mode that a file got which was created.
func lookUpMode(ws *workspace.Workspace, p workspace.Path, f *history.File) {
	if f.Before.Exists || !f.After.Exists {
		return
	}
	if info, err := ws.Stat(p); err == nil {
		f.After.Mode = info.Mode()
	}
}

// write takes the steps in turn, removals last: what is written can be lost by none of them.
// No file changes before ready says so. made is called once all of them have changed.
func write(ctx context.Context, ws *workspace.Workspace, steps []Step, hashes []func() [sha256.Size]byte, ready func() error, made func()) (*Done, error) {
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
				Expect: s.Before, New: s.Before == nil, Parents: true, Hash: hashes[i], Perm: s.Perm, Mode: s.Mode, Ready: ready, Changed: changed, Attributes: s.Attributes,
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

// putBack undoes the steps that were done, if nobody else changed their files since.
// gone has the attributes of those that were removed.
func putBack(ctx context.Context, ws *workspace.Workspace, steps []Step, gone []*workspace.Attributes, done *Done) error {
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

// restore makes a file another version, if it is the one expected now.
func restore(ctx context.Context, ws *workspace.Workspace, p workspace.Path, now, to history.Version) error {
	snap, err := Current(ws, p)
	if err != nil {
		return err
	}
	if !Matches(snap, now) {
		return tool.Errorf(tool.Conflict, "%s was changed by another program meanwhile.", p)
	}
	switch {
	case !to.Exists && snap == nil:
		return nil
	case !to.Exists:
		return ws.Remove(ctx, p, snap)
	}
	_, err = ws.WriteFile(ctx, p, to.Data, workspace.WriteOptions{Expect: snap, New: snap == nil, Parents: true, Mode: &to.Mode, Attributes: to.Attributes})
	return err
}

// Current reads a file as it is; nil if there is none.
func Current(ws *workspace.Workspace, p workspace.Path) (*workspace.Snapshot, error) {
	snap, err := ws.ReadFile(p, workspace.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return snap, err
}

// Matches reports whether a file is a version, byte for byte.
func Matches(snap *workspace.Snapshot, v history.Version) bool {
	if snap == nil {
		return !v.Exists
	}
	return v.Exists && snap.Hash() == v.Hash
}

// RemoveDirs removes directories that a change made and that are empty now.
func RemoveDirs(ws *workspace.Workspace, dirs []string) {
	dirs = slices.Clone(dirs)
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) }) // the innermost first
	for _, dir := range dirs {
		if p, err := ws.Resolve("/", dir); err == nil && p.String() == filepath.Clean(dir) {
			_ = ws.RemoveDir(p) // one with entries stays
		}
	}
}
