package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/branch"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/principal"
)

// The method "openBranches" prepares the branches of the state directory. A host without a state directory supports no branches.
func (e *Engine) openBranches() {
	if e.home.Root == "" {
		return
	}
	e.branches.Store = &branch.Store{
		Dir:   e.home.Branches(),
		Guard: changeset.Guard(func() *config.Config { return e.Current().Config }, e.home, e.state.AddAudit, e.opts.Log),
	}
	e.branches.End = e.super.EndBranch
	e.branches.Launcher = func() (string, error) {
		l := e.Current().Launcher
		return l.Kernel().Launcher, l.Branchable()
	}
}

// cleanBranches removes what is left of branches, now and once a day. It returns when the engine closes.
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

// branchOf returns the name of the branch in which a request runs. Empty means the workspace itself.
func (e *Engine) branchOf(req Request, session string) (string, error) {
	name := req.Branch
	if name == "" {
		switch e.Current().Config.Workspace.Mode {
		case "branch":
			sum := sha256.Sum256([]byte(session))
			name = "session-" + hex.EncodeToString(sum[:4])
		case "require":
			return "", tool.Errorf(tool.PermissionDenied, "The configuration requires that every session works in a branch (workspace { mode = \"require\" }), and this call names none. Name one, for example toolhost run --branch NAME, or \"branch\" in the request.")
		}
	}
	if name == "" {
		return "", nil
	}
	if err := branch.CheckName(name); err != nil {
		return "", tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	if strings.HasPrefix(name, branch.PreviewPrefix) {
		return "", tool.Errorf(tool.InvalidArguments, "%q is the name of a preview, whose content cannot change any more. Use another name, or apply the preview: toolhost branch apply %[1]s.", name)
	}
	if e.branches.Store == nil {
		return "", tool.Errorf(tool.Unavailable, "Branches need a state directory, and this host has none. See the problems in toolhost status.")
	}
	return name, nil
}

// The method "mounted" returns the session of a request, with its branch mounted. The caller must call release once the
// request has ended.
func (e *Engine) mounted(req Request) (s call.Session, release func(), err error) {
	s, err = e.stored(req)
	if err != nil || s.Branch == "" {
		return s, func() {}, err
	}
	b := e.branches.Mounted(s.Principal.Owner(), s.Workspace, s.Branch)
	if b == nil {
		if b, err = e.branches.Store.Make(s.Principal.Owner(), s.Workspace, s.Branch); err != nil {
			return s, nil, tool.Errorf(tool.Unavailable, "%w.", err)
		}
	}
	return e.mount(s, b)
}

// The method "mount" mounts the branch of a session. The caller must call release once the session no longer uses it.
func (e *Engine) mount(s call.Session, b *branch.Branch) (mounted call.Session, release func(), err error) {
	mount, release, err := e.branches.Acquire(b, s.ID)
	if err != nil {
		return s, nil, tool.Errorf(tool.Unavailable, "%w.", err)
	}
	s.Mount = call.Mount{Key: mount.Key, View: mount.View()}
	s.Roots = inBranch(s.Roots, s)
	s.Layer = e.layer(b, mount)
	s.Checkpoints = nil // a preview begins with the session of its branch
	if e.Current().Config.Workspace.Checkpoints.Automatic && !b.IsPreview() {
		s.Checkpoints = &checkpoints{e: e, mount: mount, session: s}
	}
	s.Prepare = func() error {
		if err := mount.Refresh(); err != nil {
			return fmt.Errorf("the branch %s cannot be brought up to date: %w", s.Branch, err)
		}
		return nil
	}
	return s, release, nil
}

// layer returns the limits of a branch. A preview has a tenth of them.
func (e *Engine) layer(b *branch.Branch, m *branch.Mount) *call.Layer {
	limits := e.Current().Config.Workspace.Limits
	l := &call.Layer{Name: b.Name, MaxBytes: int64(min(limits.Layer, 1<<62)), MaxFiles: limits.Files, Usage: m.Usage, LastUsage: m.LastUsage}
	if b.IsPreview() {
		l.MaxBytes, l.MaxFiles = max(1, l.MaxBytes/10), max(1, l.MaxFiles/10)
	}
	return l
}

// inBranch returns the roots of a session in a branch. The branch covers the workspace. Other roots are read-only, because
// a change of them could not be taken back with the branch.
func inBranch(roots []tool.Root, s call.Session) []tool.Root {
	if s.Mount.Key == "" {
		return roots
	}
	workspace := tool.Root{Path: s.Workspace}
	out := slices.Clone(roots)
	for i := range out {
		if rel, in := workspace.Rel(out[i].Path); in {
			out[i].Branch, out[i].View = s.Mount.Key, filepath.Join(s.Mount.View, rel)
		} else {
			out[i].Writable = false
		}
	}
	return out
}

// ReleaseBranch unmounts the branch of a request. See host.Host.ReleaseBranch.
func (e *Engine) ReleaseBranch(req Request) error {
	if req.Branch == "" && e.Current().Config.Workspace.Mode != "branch" {
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
}

// BranchChange is what a branch changes at one path.
type BranchChange = branch.Change

// BranchOutcome describes an apply.
type BranchOutcome = branch.Outcome

// BranchConflictError means that the branch and the workspace changed the same paths.
type BranchConflictError = branch.ConflictError

// BranchNotFoundError means that a branch does not exist.
type BranchNotFoundError = branch.NotFoundError

// BranchChangedError means that a preview is not what a person was shown.
type BranchChangedError = branch.ChangedError

// findBranch returns the branch of a request, and the operations on it.
func (e *Engine) findBranch(req Request) (*branch.Branch, *changeset.Set, error) {
	who, workspace, err := e.place(req)
	if err != nil {
		return nil, nil, err
	}
	if e.branches.Store == nil {
		return nil, nil, tool.Errorf(tool.Unavailable, "Branches need a state directory, and this host has none. See the problems in toolhost status.")
	}
	if req.Branch == "" {
		s, err := e.stored(req)
		if err != nil {
			return nil, nil, err
		}
		req.Branch = s.Branch
	}
	if err := branch.CheckName(req.Branch); err != nil {
		return nil, nil, tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	b, err := e.branches.Store.Find(who.Owner(), workspace, req.Branch)
	return b, e.changeset(who, workspace), err
}

func (e *Engine) changeset(who *Principal, workspace string) *changeset.Set {
	return &changeset.Set{
		Store: e.branches.Store, Config: e.Current().Config, Home: e.home, Workspace: workspace, Principal: who.Name, Audit: e.state.AddAudit, Log: e.opts.Log,
	}
}

// BranchChanges returns what a branch changes, as a list and as a diff of about limit bytes.
func (e *Engine) BranchChanges(req Request, limit int) ([]BranchChange, string, error) {
	b, _, err := e.findBranch(req)
	if err != nil {
		return nil, "", err
	}
	changes, err := b.Changes()
	if err != nil {
		return nil, "", err
	}
	diff, err := b.ShortDiff(changes, limit)
	return append([]BranchChange{}, changes...), diff, err
}

// ApplyBranch makes the changes of a branch. See host.Host.ApplyBranch.
func (e *Engine) ApplyBranch(ctx context.Context, req Request, sel BranchSelection) (*BranchOutcome, error) {
	b, set, err := e.takeBranch(ctx, req, !sel.StopJobs)
	if err != nil {
		return nil, err
	}
	out, err := set.Apply(b, branch.Selection{Paths: sel.Paths, Ours: sel.Ours, Theirs: sel.Theirs})
	e.Current().Roots.Forget()
	return out, err
}

// DiscardBranch removes a branch. See host.Host.DiscardBranch.
func (e *Engine) DiscardBranch(ctx context.Context, req Request) error {
	b, set, err := e.takeBranch(ctx, req, false)
	if err != nil {
		return err
	}
	return set.Discard(b)
}

// takeBranch finds the branch of a request and unmounts it in all hosts, and with it the branch that a preview is about. If
// keep is true, it returns an error if jobs run in it.
func (e *Engine) takeBranch(ctx context.Context, req Request, keep bool) (*branch.Branch, *changeset.Set, error) {
	b, set, err := e.findBranch(req)
	if err != nil {
		return nil, nil, err
	}
	who := req.Principal
	if mode := e.Current().Config.Workspace.Mode; who != nil && mode != "" && mode != "direct" && !who.Has(principal.Administer) {
		return nil, nil, tool.Errorf(tool.PermissionDenied, "The configuration keeps sessions in branches (workspace { mode = %q }), so principal %q needs the right administer to apply or discard one. Ask the operator to do it: toolhost branch apply %s.", mode, who.Name, b.Name)
	}
	return b, set, e.release(ctx, b, set, keep)
}

var errBusy = fmt.Errorf("the process %d runs a call in the branch. Wait until the call ends, or cancel it", os.Getpid())
