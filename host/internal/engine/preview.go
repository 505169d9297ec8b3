package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/generation"
)

// preview is a branch for one call. It implements [call.Preview].
type preview struct {
	e       *Engine
	b       *branch.Branch
	of      *branch.Branch // nil for a preview of the workspace
	set     *changeset.Set
	session call.Session
	unmount func()
	done    bool // whether the branch is kept or applied
}

// diffLimit limits the size of the diff of a preview, in bytes.
const diffLimit = 32 << 10

// Preview implements [dispatch.Host].
func (e *Engine) preview(s call.Session) (call.Preview, error) {
	g := e.Current()
	p, err := func() (*preview, error) {
		if !confinesShell(g) {
			return nil, errors.New("no sandbox would keep the command from the files themselves")
		}
		if s.Branch != "" {
			id, _, _ := strings.Cut(s.Mount.Key, "#")
			if err := e.endsJobs(id, s.Branch); err != nil {
				return nil, err
			}
		}
		_, p, err := e.previewOf(g, s, false)
		return p, err
	}()
	if err != nil {
		return nil, errors.New(trimmed(err))
	}
	return p, nil
}

// endsJobs returns an error if jobs run in a branch. Accepting a preview of the branch would end them, because it
// unmounts the branch.
func (e *Engine) endsJobs(id, name string) error {
	jobs := e.jobs(context.Background(), id)
	if len(jobs) == 0 {
		return nil
	}
	return tool.Errorf(tool.Conflict, "These jobs run in the branch %s, and making changes that were shown would end them: %s. Wait until they end, or end them%s", name, strings.Join(jobs, "; "), killing(e.jobsTool()))
}

// trimmed returns the text of an error in a form that can stand inside a sentence.
func trimmed(err error) string {
	return strings.TrimRight(tool.AsError(err).Message, ".")
}

// previewOf makes and mounts the branch for the preview of a call in a session. If fork is true, the preview gets a
// copy of the session, so that the call does not change the session.
func (e *Engine) previewOf(g *generation.Generation, s call.Session, fork bool) (call.Session, *preview, error) {
	if e.branches.Store == nil {
		return s, nil, tool.Errorf(tool.Unavailable, "Previews need a state directory, and this host has none. See the problems in toolhost status.")
	}
	p := &preview{e: e, set: e.changeset(g, s.Principal, s.Workspace)}
	owner := s.Principal.Owner()
	var err error
	if s.Branch != "" {
		if p.of, err = e.branches.Store.Find(owner, s.Workspace, s.Branch); err != nil {
			return s, nil, tool.Errorf(tool.Unavailable, "%w.", changeset.Advise(err))
		}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // the error is ignored, because Read always succeeds
	name := branch.PreviewPrefix + hex.EncodeToString(random[:])
	if p.b, err = e.branches.Store.Preview(owner, s.Workspace, name, p.of, !fork, e.backend(g)); err != nil {
		return s, nil, noBranch(err)
	}
	s.Branch = name
	if fork {
		key := s.ID + "+" + name
		if err := e.state.Fork(s.ID, key); err != nil {
			return s, nil, errors.Join(fmt.Errorf("the session %s cannot be copied: %w", s.ID, err),
				p.set.Store.Discard(p.b))
		}
		s.ID = key
		e.state.SaveSession(s.Stored())
	}
	s.Session = s.Stored()
	if p.session, p.unmount, err = e.mount(g, s, p.b); err != nil {
		return s, nil, errors.Join(err, p.set.Store.Discard(p.b))
	}
	return p.session, p, nil
}

// Session implements [call.Preview].
func (p *preview) Session() call.Session { return p.session }

// End implements [call.Preview].
func (p *preview) End() (call.Shown, error) {
	changes, diff, err := p.end()
	return call.Shown{Diff: diff, Changes: len(changes), Token: p.b.Name}, err
}

func (p *preview) end() ([]change.Change, string, error) {
	p.unmount()
	if !p.e.branches.Release(p.b.ID()) {
		return nil, "", errBusy
	}
	if err := p.set.Store.Seal(p.b); err != nil {
		return nil, "", err
	}
	changes, err := p.b.Changes()
	if err != nil {
		return nil, "", changeset.Advise(err)
	}
	diff, err := p.b.ShortDiff(changes, diffLimit)
	return changes, diff, err
}

// Apply implements [call.Preview].
func (p *preview) Apply(id, command string) ([]string, error) {
	if p.of != nil {
		if err := p.e.endsJobs(p.of.ID(), p.of.Name); err != nil { // a job can have started while the request waited
			return nil, err
		}
		if !p.e.branches.ReleaseFor(p.of.ID(), 1) {
			return nil, fmt.Errorf("other calls run in the branch %s", p.of.Name)
		}
	}
	var notes []string
	if c := p.e.Current().Config.Workspace.Checkpoints; p.of != nil && c.Automatic {
		if err := p.set.Store.Before(p.of, p.session.ID, id, command, changeset.CheckpointRules(c)); err != nil {
			notes = append(notes, fmt.Sprintf("No checkpoint was made before this call, so undo cannot take it back: %v", changeset.Advise(err)))
		}
	}
	if err := p.set.Store.Answered(p.b); err != nil {
		return nil, err
	}
	out, err := p.set.Apply(p.b, branch.Selection{Allowed: true})
	if err != nil {
		return nil, err
	}
	p.done = p.of != nil // applying removes the preview of a branch; that of the workspace stays, for a revert
	if p.of == nil && len(out.Changes) > 0 {
		p.done = true
		out.Notes = append(out.Notes, "To take them back: toolhost branch revert "+p.b.Name)
	}
	for i := range out.Left {
		out.Notes = append(out.Notes,
			fmt.Sprintf("Not made: %s, because %s", change.Describe(out.Left[i]), out.Left[i].Never))
	}
	return append(notes, out.Notes...), nil
}

// Drop implements [call.Preview].
func (p *preview) Drop() {
	if p.done {
		return
	}
	p.unmount()
	p.e.branches.Release(p.b.ID())
	if err := p.set.Store.Discard(p.b); err != nil {
		p.e.opts.Log.Warn("a preview cannot be discarded", "branch", p.b.Name, "error", err)
	}
}

// show adds the changes of a request with Preview to the result of the request. It discards a preview without changes.
func (p *preview) show(res *tool.Result) *tool.Result {
	changes, diff, err := p.end()
	if err != nil {
		p.Drop()
		return call.Refused(tool.Errorf(tool.Unavailable, "The changes of the preview cannot be shown: %s. Nothing was changed. Repeat the call.", trimmed(err)))
	}
	shown := map[string]any{"changes": append([]change.Change{}, changes...)}
	if len(changes) == 0 {
		p.Drop()
	} else {
		p.done = true
		shown["token"], shown["branch"], shown["diff"] = p.b.Name, p.b.Name, diff
	}
	call.Annotate(res, "preview", shown)
	return res
}

// join returns a function that calls two functions.
func join(a, b func()) func() {
	return func() {
		a()
		b()
	}
}
