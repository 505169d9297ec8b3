package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/paths"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
)

// openBranches prepares the branches of the state directory. A host without a state directory supports no branches.
func (e *Engine) openBranches() {
	if e.home.Root == "" {
		return
	}
	e.branches.Store = &branch.Store{
		Dir: e.home.Branches(),
		Guard: changeset.Guard(func() *config.Config { return e.Current().Config }, e.home, e.state.AddAudit,
			e.opts.Log),
	}
	e.branches.End = e.super.EndBranch
	e.branchless = func(s call.Session) call.Branches { return e.branchTool(s, nil) }
	e.branches.Launcher = func() (string, error) {
		l := e.Current().Launcher
		return l.Kernel().Launcher, l.Branchable()
	}
}

// cleanBranches removes old branches and the remaining data of discarded branches. It does so at once and then once a
// day. It returns when the engine closes.
func (e *Engine) cleanBranches() {
	store := e.branches.Store
	for store != nil {
		if err := store.Clean(e.Current().Config.Workspace.Limits.Age); err != nil {
			e.opts.Log.Warn("discarded branches cannot be removed", "directory", store.Dir, "error", err)
		}
		select {
		case <-e.closing.done:
			return
		case <-time.After(24 * time.Hour):
		}
	}
}

// mounted mounts the branch of a request's session. A missing branch is made.
func (e *Engine) mounted(g *generation.Generation, a *arrival) error {
	s := a.session
	for attempt := 1; ; attempt++ {
		b := e.branches.Mounted(s.Principal.Owner(), s.Workspace, s.Branch)
		if b == nil {
			var err error
			if b, err = e.branches.Store.Make(s.Principal.Owner(), s.Workspace, s.Branch, e.backend(g)); err != nil {
				return noBranch(err)
			}
		}
		mounted, release, err := e.mount(g, s, b)
		if err == nil {
			a.session, a.unmount = mounted, release
		}
		if none := (*branch.NoOverlayError)(nil); errors.As(err, &none) {
			_ = e.branches.Store.DiscardEmpty(b) // ignore the error: a remaining empty branch does no harm
		}
		if !errors.Is(err, branch.ErrGone) || attempt == maxAttempts {
			return err
		}
	}
}

// maxAttempts limits the attempts to make and mount a branch. An attempt is repeated if somebody discards the branch
// before it is mounted.
const maxAttempts = 10

// mount mounts the branch of a session. The caller must call release once the session no longer uses the
// branch.
func (e *Engine) mount(g *generation.Generation, s call.Session,
	b *branch.Branch) (mounted call.Session, release func(), err error) {
	mount, unmount, err := e.branches.Acquire(b, s.ID)
	if err != nil {
		return s, nil, noBranch(err)
	}
	s.Mount = call.Mount{Key: mount.Key, View: mount.View()}
	if b.Copy != nil {
		s.Mount.Tree, s.Mount.Note = b.Tree(), b.Copy.Describe(b)
		s.Cwd = s.Place(s.Cwd)
		if !g.Launcher.Confines() {
			s.Mount.Note += ". No sandbox keeps commands from changing the workspace, so do not use its path"
		}
	}
	if git := b.OutsideGit(); git != "" && !b.IsPreview() {
		s.Mount.Note = strings.TrimPrefix(s.Mount.Note+". "+git, ". ")
	}
	s.Roots = s.InBranch(g.Roots.Of(s.Principal.Owner(), s.Workspace, false))
	s.Layer = e.layer(g, b, mount)
	s.Checkpoints, s.Branches = nil, nil // a preview begins with the session of its branch, but has no checkpoints
	if !b.IsPreview() {
		back := &changeset.Checkpoints{
			Mounts: &e.branches, Mount: mount, Session: s, Changes: e.changeset(g, s.Principal, s.Workspace),
			Jobs:     e.jobs,
			Settings: func() config.Checkpoints { return e.Current().Config.Workspace.Checkpoints },
		}
		s.Branches = func(s call.Session) call.Branches { return e.branchTool(s, back) }
		if g.Config.Workspace.Checkpoints.Automatic {
			s.Checkpoints = back
		}
	}
	end, begin := func() {}, sync.Once{}
	s.Prepare = func() error {
		begin.Do(func() { end = e.branches.Begin(mount) })
		if err := mount.Refresh(); err != nil {
			return fmt.Errorf("the branch %s cannot be brought up to date: %w", s.Branch, err)
		}
		e.Current().Launcher.Refreshed(mount.Key)
		return nil
	}
	return s, func() {
		begin.Do(func() {}) // from here on, an abandoned call can no longer begin to use the mount through Prepare
		end()
		unmount()
	}, nil
}

// backend returns the kind of new branches and the limits of a copy.
func (e *Engine) backend(g *generation.Generation) branch.Backend {
	w := &g.Config.Workspace
	return branch.Backend{
		Copy: w.Backend == "copy", MaxBytes: int64(min(w.Limits.Layer, 1<<62)), MaxFiles: w.Limits.Files,
	}
}

// noBranch returns the error for a branch that cannot be made or mounted.
func noBranch(err error) error {
	err = changeset.Advise(err)
	if none := (*branch.NoOverlayError)(nil); errors.As(err, &none) {
		return tool.Errorf(tool.Unavailable, "%w. See toolhost doctor. Where no layer is possible, a branch can be a copy of the workspace: workspace { backend = \"copy\" }.", err)
	}
	return tool.Errorf(tool.Unavailable, "%w.", err)
}

// inCopy sets the directory of a session whose branch is a copy. The branch need not be mounted.
func (e *Engine) inCopy(s call.Session) call.Session {
	b := e.branches.Mounted(s.Principal.Owner(), s.Workspace, s.Branch)
	if b == nil {
		var err error
		if b, err = e.branches.Store.Find(s.Principal.Owner(), s.Workspace, s.Branch); err != nil {
			return s // it does not exist yet
		}
	}
	if b.Copy != nil {
		s.Mount.Tree = b.Tree()
	}
	return s
}

// layer returns the limits of a branch. A preview has a tenth of the limits of other branches.
func (e *Engine) layer(g *generation.Generation, b *branch.Branch, m *branch.Mount) *call.Layer {
	limits := g.Config.Workspace.Limits
	l := &call.Layer{Name: b.Name, MaxBytes: int64(min(limits.Layer, 1<<62)), MaxFiles: limits.Files, Usage: m.Usage,
		LastUsage: m.LastUsage}
	if holdsBack(g, b) {
		l.Unasked = func() error { return e.branches.Unasked(m) }
	}
	if b.IsPreview() {
		l.MaxBytes, l.MaxFiles = max(1, l.MaxBytes/10), max(1, l.MaxFiles/10)
	}
	return l
}

// holdsBack reports whether commands in a branch can only change files of the branch, and whether these changes wait
// for an apply that somebody must confirm. The preview of a permission request and the branch of an atomic batch are
// applied without such a confirmation.
func holdsBack(g *generation.Generation, b *branch.Branch) bool {
	if b.Held || strings.HasPrefix(b.Name, branch.AtomicPrefix) {
		return false
	}
	return confinesShell(g)
}

// confinesShell reports whether the sandbox keeps commands in a branch from all files of the workspace below it.
func confinesShell(g *generation.Generation) bool {
	shell := g.Registry.ByRole(tool.RoleShell)
	return shell != nil && g.Launcher.ConfinesPlugin(shell.Plugin)
}

// ReleaseBranch unmounts the branch of a request. See host.Host.ReleaseBranch.
func (e *Engine) ReleaseBranch(req Request) error {
	if req.Branch == "" && e.Current().Config.Workspace.Mode != config.ModeBranch {
		return nil
	}
	b, _, err := e.findBranch(req)
	if err == nil && !e.branches.Release(b.ID()) {
		err = errBusy
	}
	return err
}

// BranchSelection selects the changes of an apply. See host.BranchSelection.
type BranchSelection struct {
	Paths, Ours, Theirs []string
	StopJobs            bool
	Asks                Client
}

// BranchChange is a change that a branch makes at one path.
type BranchChange = change.Change

// BranchOutcome describes an apply.
type BranchOutcome = branch.Outcome

// BranchConflictError means that the branch and the workspace changed the same paths.
type BranchConflictError = branch.ConflictError

// BranchNotFoundError means that a branch does not exist.
type BranchNotFoundError = branch.NotFoundError

// AtomicPrefix is the prefix of the names of branches for atomic batches.
const AtomicPrefix = branch.AtomicPrefix

// BranchHeldError means that a branch belongs to an unanswered permission request.
type BranchHeldError = branch.HeldError

// BranchUnaskedError means that nobody has confirmed the changes of a branch.
type BranchUnaskedError = branch.UnaskedError

// BranchChangedError means that a preview has changed since a person saw it.
type BranchChangedError = branch.ChangedError

// findBranch returns the branch of a request, and the object that performs operations on the branch.
func (e *Engine) findBranch(req Request) (*branch.Branch, *changeset.Set, error) {
	g := e.Current()
	who, workspace, err := e.place(g, req)
	if err != nil {
		return nil, nil, err
	}
	if e.branches.Store == nil {
		return nil, nil, tool.Errorf(tool.Unavailable, "Branches need a state directory, and this host has none. See the problems in toolhost status.")
	}
	if req.Branch == "" {
		s, err := e.session(g, req)
		if err != nil {
			return nil, nil, err
		}
		req.Branch = s.Branch
	}
	if err := branch.CheckName(req.Branch); err != nil {
		return nil, nil, tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	b, err := e.branches.Store.Find(who.Owner(), workspace, req.Branch)
	return b, e.changeset(g, who, workspace), changeset.Advise(err)
}

func (e *Engine) changeset(g *generation.Generation, who *Principal, workspace string) *changeset.Set {
	return &changeset.Set{
		Store: e.branches.Store, Config: g.Config, Home: e.home, Workspace: workspace, Principal: who.Name,
		Audit: e.state.AddAudit, Log: e.opts.Log,
	}
}

// BranchChanges returns the changes of a branch, as a list and as a diff of about limit bytes.
func (e *Engine) BranchChanges(req Request, limit int) ([]BranchChange, string, error) {
	b, _, err := e.findBranch(req)
	if err != nil {
		return nil, "", err
	}
	changes, err := b.Changes()
	if err != nil {
		return nil, "", changeset.Advise(err)
	}
	diff, err := b.ShortDiff(changes, limit)
	return append([]BranchChange{}, changes...), diff, err
}

// ApplyBranch makes the changes of a branch. See host.Host.ApplyBranch.
func (e *Engine) ApplyBranch(ctx context.Context, req Request, sel BranchSelection) (*BranchOutcome, error) {
	selected := branch.Selection{Paths: sel.Paths, Ours: sel.Ours, Theirs: sel.Theirs}
	if err := e.confirm(ctx, req, sel.Asks, &selected); err != nil {
		return nil, err
	}
	b, set, err := e.takeBranch(ctx, req, !sel.StopJobs)
	if err != nil {
		return nil, err
	}
	out, err := set.Apply(b, selected)
	e.reloader.Builder.Calls.Roots.Forget()
	return out, err
}

// confirm decides whether a selection may be applied although nobody has confirmed the changes of its branch. It asks a
// person if the principal itself cannot confirm them.
func (e *Engine) confirm(ctx context.Context, req Request, asks Client, sel *branch.Selection) error {
	b, set, err := e.findBranch(req)
	if err != nil {
		return err
	}
	g := e.Current()
	who, workspace, err := e.place(g, req)
	if err != nil {
		return err
	}
	if sel.Allowed = who.Confirms(b.Owner); sel.Allowed || !b.Unasked || b.Held || b.Of != "" || asks == nil {
		return nil // the apply itself returns the error of a branch that is not confirmed
	}
	if err := e.keeps(req.Principal, b); err != nil {
		return err
	}
	t := &changeset.BranchTool{Session: call.Session{Principal: who, Session: state.Session{Workspace: workspace}},
		Changes: set, Denied: denied(g.Config, workspace)}
	return t.Confirm(ctx, b, sel, e.client(g, asks, new(call.Running)))
}

// DiscardBranch removes a branch. See host.Host.DiscardBranch.
func (e *Engine) DiscardBranch(ctx context.Context, req Request) error {
	b, set, err := e.takeBranch(ctx, req, false)
	if err != nil {
		return err
	}
	return set.Discard(b)
}

// takeBranch finds the branch of a request and unmounts it in all hosts. If the branch is a preview of another branch,
// takeBranch also unmounts that branch. If keep is true and jobs run in one of these branches, it returns an error.
func (e *Engine) takeBranch(ctx context.Context, req Request, keep bool) (*branch.Branch, *changeset.Set, error) {
	b, set, err := e.findBranch(req)
	if err != nil {
		return nil, nil, err
	}
	if err := e.keeps(req.Principal, b); err != nil {
		return nil, nil, err
	}
	return b, set, e.release(ctx, b, set, keep)
}

// keeps returns an error if the configuration keeps a principal from applying and discarding branches.
func (e *Engine) keeps(who *Principal, b *branch.Branch) error {
	if mode := e.Current().Config.Workspace.Mode; who != nil && mode != "" && mode != "direct" &&
		!who.Has(principal.Administer) {
		return tool.Errorf(tool.PermissionDenied, "The configuration keeps sessions in branches (workspace { mode = %q }), so principal %q needs the right administer to apply or discard one. Ask the operator to do it: toolhost branch apply %s.", mode, who.Name, b.Name)
	}
	return nil
}

// denied returns a function that reports whether a configuration keeps all tools from reading or writing a path of a
// workspace.
func denied(cfg *config.Config, workspace string) func(path string, write bool) bool {
	find := func(globs ...string) func() *paths.Finder {
		return sync.OnceValue(func() *paths.Finder {
			all, err := policy.Globs(globs, workspace)
			if err != nil {
				all = []string{"/**"} // the configuration was checked, so this does not happen
			}
			return paths.New([]paths.Root{{Path: workspace}}, paths.Rules{Hide: append(all, cfg.Sandbox.Deny...)})
		})
	}
	reads := find(cfg.Permissions.Paths.Deny...)
	writes := find(slices.Concat(cfg.Permissions.Paths.Deny, cfg.Permissions.Paths.Protect)...)
	return func(path string, write bool) bool { return reads().Concerns(path) || write && writes().Concerns(path) }
}

// branchTool returns the implementation of the tool "branch" for a session. The argument "back" contains the
// checkpoints of the session's branch. It is nil for a session without a branch.
func (e *Engine) branchTool(s call.Session, back *changeset.Checkpoints) call.Branches {
	g := e.Current()
	set := e.changeset(g, s.Principal, s.Workspace)
	return &changeset.BranchTool{
		Mounts: &e.branches, Session: s, Undo: back, Changes: set,
		Release: func(ctx context.Context, b *branch.Branch, own int, keepJobs bool) error {
			if err := e.releaseBranch(ctx, b.ID(), b.Name, own, keepJobs); err != nil {
				return err
			}
			return set.Release(ctx, b, keepJobs)
		},
		Refuses: func(b *branch.Branch) error { return e.keeps(s.Principal, b) },
		Denied:  denied(g.Config, s.Workspace),
		Changed: e.reloader.Builder.Calls.Roots.Forget,
	}
}

var errBusy = fmt.Errorf("the process %d runs a call in the branch, or makes or restores a checkpoint of it. Wait until that ends, or cancel the call", os.Getpid())
