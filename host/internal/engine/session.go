package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/statedir"
)

// The method "session" returns the session of a request as it is now. It creates a missing session. It does not mount the
// session's branch.
func (e *Engine) session(g *generation.Generation, req Request) (call.Session, error) {
	out, err := e.stored(g, req)
	if err != nil {
		return out, err
	}
	return inWorkspace(e.withTemporary(g, out)), nil
}

// The method "stored" returns the session of a request without checking its directory. It creates a missing session.
func (e *Engine) stored(g *generation.Generation, req Request) (call.Session, error) {
	who, workspace, err := e.place(g, req)
	if err != nil {
		return call.Session{}, err
	}
	if err := g.Roots.Refused(workspace); err != nil {
		return call.Session{}, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	cfg := g.Config
	if err := errors.Join(e.keepsPlacesOut(cfg, workspace), e.keepsHostOut(cfg, workspace)); err != nil {
		return call.Session{}, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	key, err := who.SessionKey(req.Session, workspace)
	if err != nil {
		return call.Session{}, tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	name, err := e.branchOf(g, req, who.Owner(), workspace, key)
	if err != nil {
		return call.Session{}, err
	}
	if name != "" {
		key += "+" + name // a session belongs to one branch
	} else {
		key = e.withoutBranch(who.Owner(), workspace, key, req.Session)
	}
	out := call.Session{Principal: who, Branch: name, Roots: g.Roots.Of(who.Owner(), workspace, namesOutput(req))}
	err = e.open(&out, req, key, workspace)
	if name != "" && err == nil {
		out = e.inCopy(out)
	}
	return out, err
}

// keepsPlacesOut returns an error if tools in a workspace can write to the state directory, or reach a secret; see
// [roots.Outside].
func (e *Engine) keepsPlacesOut(cfg *config.Config, workspace string) error {
	if e.outside.Checked(cfg, workspace) {
		return nil
	}
	return e.outside.Check(cfg, workspace, e.places(cfg))
}

// keepsHostOut returns an error if tools of a requested workspace could write files that the host runs or reads. These
// files are the configuration, the programs that the configuration names, code files in the arguments of these
// programs, and the programs of the host. The host's own workspace is checked when the configuration is opened.
func (e *Engine) keepsHostOut(cfg *config.Config, workspace string) error {
	if workspace == e.opts.Workspace || cfg.Sandbox.Workspace == "read-only" {
		return nil
	}
	for _, path := range append(e.reloader.Source.Uses(cfg), e.opts.BundledDir) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target = path
		}
		if root := (tool.Root{Path: workspace}); path != "" && (root.Contains(path) || root.Contains(target)) {
			return fmt.Errorf("the workspace %s contains %s, which the host uses, and tools could change it. Use another workspace, or move it elsewhere", workspace, path)
		}
	}
	return nil
}

// The method "place" returns the principal and the workspace of a request.
func (e *Engine) place(g *generation.Generation, req Request) (who *Principal, workspace string, err error) {
	if who = req.Principal; who == nil {
		who = e.local
	}
	if who, err = e.within(g, who, req.Endpoint); err != nil {
		return nil, "", err
	}
	workspace, err = e.workspace(who, req.Workspace)
	return who, workspace, err
}

// withTemporary sets the temporary directory of a session.
func (e *Engine) withTemporary(g *generation.Generation, s call.Session) call.Session {
	base, err := e.home.Scratch()
	if err != nil {
		return s // without it, tools do not share temporary files
	}
	s.Past = scratch.PastOf(base, s.ID)
	s.Temporary = g.Launcher.Temporary(nil, s.Roots, scratch.Dir(base, s.ID))
	e.cleaning.Do(func() {
		go e.cleanBranches()
		go func() {
			if err := scratch.Clean(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
				e.opts.Log.Warn("unused temporary directories of sessions cannot be removed", "directory", base, "error", err)
			}
		}()
	})
	return s
}

// namesOutput reports whether the text of a request contains the name of an output directory of plugins. An earlier
// call can have created such a directory.
func namesOutput(req Request) bool {
	return strings.Contains(req.Command, statedir.OutputDir) || bytes.Contains(req.Arguments, []byte(statedir.OutputDir))
}

// The method "renew" returns the current state of a queued request's session. Earlier calls can change the session's
// directory and roots.
func (e *Engine) renew(g *generation.Generation, s call.Session, refresh bool) (call.Session, error) {
	s.Roots = inBranch(g.Roots.Of(s.Principal.Owner(), s.Workspace, refresh), s)
	now, known, err := e.state.Session(s.ID)
	if err != nil {
		return s, fmt.Errorf("the session %s cannot be read: %w", s.ID, err)
	}
	if known {
		s.Session = now
	}
	return inWorkspace(e.withTemporary(g, s)), nil
}

// inWorkspace replaces the directory of a session with the workspace if the directory is missing or outside all roots.
// It does not save the session, because another call can change the directory at the same time.
func inWorkspace(s call.Session) call.Session {
	s.Gone, s.Cwd = "", s.Place(s.Cwd)
	exists := roots.IsDir(scratch.OnHost(s.All(), s.Cwd))
	if s.Displaced = !exists || !s.Contains(s.Cwd); s.Displaced {
		if !exists && s.Cwd != s.Top() {
			s.Gone = s.Cwd
		}
		s.Cwd = s.Top()
	}
	return s
}

// The method "workspace" returns the directory in which a request runs. If the principal is not allowed to use the
// directory, the error does not reveal whether the directory exists.
func (e *Engine) workspace(who *Principal, named string) (string, error) {
	dir := named
	if named == "" {
		if dir = who.DefaultWorkspace(e.opts.Workspace); dir == e.opts.Workspace && who.AnyWorkspace() {
			return dir, nil
		}
	}
	path, err := roots.Workspace(dir)
	switch {
	case who.AnyWorkspace() && err != nil:
		return "", tool.Errorf(tool.InvalidArguments, "%w. Name an existing directory.", err)
	case err != nil || !who.WorkspaceAllowed(path, e.opts.Workspace):
		return "", because(ReasonWorkspace, tool.Errorf(tool.PermissionDenied, "Principal %q is not allowed to work in %s. Ask the operator to allow the directory: in \"workspaces\" of the principal, or with toolhost serve --allow-workspace if you use the token of the server.", who.Name, dir))
	}
	return path, nil
}

// The method "open" loads the stored session of a request, or creates the session. A session belongs to one workspace.
func (e *Engine) open(out *call.Session, req Request, key, workspace string) error {
	found, err := e.load(out, &key, workspace)
	if found || err != nil {
		return err
	}
	e.opening.Lock() // concurrent first calls from two workspaces must not create a common session
	defer e.opening.Unlock()
	if found, err := e.load(out, &key, workspace); found || err != nil {
		return err
	}
	who := out.Principal
	if who.MaxSessions > 0 {
		if err := e.limitSessions(who); err != nil {
			return err
		}
	}
	if req.From != "" {
		from, err := who.SessionKey(req.From, workspace)
		if err == nil {
			err = e.state.Fork(e.withoutBranch(who.Owner(), workspace, from, req.From), key)
		}
		if err != nil {
			return fmt.Errorf("the session %s cannot be copied: %w", req.From, err)
		}
		if found, err := e.load(out, &key, workspace); found || err != nil {
			return err
		}
	}
	out.Session = state.Session{ID: key, Workspace: workspace, Cwd: workspace}
	e.state.SaveSession(out.Session)
	return nil
}

// The method "load" loads a stored session. If the session belongs to another workspace, load replaces the key with the
// key of a separate session for this workspace.
func (e *Engine) load(out *call.Session, key *string, workspace string) (found bool, err error) {
	s, known, err := e.state.Session(*key)
	if err == nil && known && s.Workspace != workspace {
		*key = fmt.Sprintf("%s@%s", *key, workspace)
		s, known, err = e.state.Session(*key)
	}
	if err != nil {
		return false, fmt.Errorf("the session %s cannot be read: %w", *key, err)
	}
	if !known || s.Workspace != workspace {
		return false, nil
	}
	out.Session = s
	return true, nil
}

// sessionAge is the time after its last use for which a session counts towards the limit of its principal.
const sessionAge = 24 * time.Hour

// limitSessions returns an error if the principal has reached its limit of sessions.
func (e *Engine) limitSessions(who *Principal) error {
	n, err := e.state.CountSessions(who.SessionPrefix(), time.Now().Add(-sessionAge))
	if err != nil {
		return fmt.Errorf("the sessions of %s cannot be counted: %w", who.Name, err)
	}
	if n >= who.MaxSessions {
		return tool.Errorf(tool.Unavailable, "Principal %q used %d sessions within a day, which is its limit. Use one of these sessions, or ask the operator for a higher limit: limits { sessions = … }.", who.Name, n)
	}
	return nil
}

// SessionKey returns the key under which the host stores the session of a request. It creates a missing session.
func (e *Engine) SessionKey(req Request) (string, error) {
	s, err := e.session(e.Current(), req)
	return s.ID, err
}

// Restore replaces the state of a request's session.
func (e *Engine) Restore(req Request, s state.Snapshot) error {
	key, err := e.SessionKey(req)
	if err != nil {
		return err
	}
	s.ID = key
	e.state.Restore(s)
	return nil
}

// History returns the last commands of a request's session, oldest first.
func (e *Engine) History(req Request, limit int) ([]state.Entry, error) {
	s, err := e.session(e.Current(), req)
	if err != nil {
		return nil, err
	}
	return e.state.History(s.ID, limit)
}

// Cwd returns the working directory of a request's session.
func (e *Engine) Cwd(req Request) (string, error) {
	s, err := e.session(e.Current(), req)
	return s.Cwd, err
}
