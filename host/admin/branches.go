package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
)

// Branches provides access to the branches of a workspace. The caller must call Close.
type Branches struct {
	workspace string
	cfg       *config.Config
	home      state.Home
	store     *branch.Store
	db        *state.DB
	log       *slog.Logger
}

// PreviewPrefix is the prefix of the names of branches for previews. A preview is removed a day after it was made.
const PreviewPrefix = branch.PreviewPrefix

// BranchChange is what a branch changes at one path.
type BranchChange = change.Change

// BranchOutcome describes an apply or a revert.
type BranchOutcome = branch.Outcome

// BranchConflictError is the error of an apply that changed nothing, because the branch and the workspace changed the
// same paths.
type BranchConflictError = branch.ConflictError

// BranchInfo describes a branch.
type BranchInfo = branch.Info

// OpenBranches opens the branches of the workspace and the state directory that a host with these options would use.
func OpenBranches(opts Options) (*Branches, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, err
	}
	workspace, err := roots.Workspace(opts.Workspace)
	if err != nil {
		return nil, err
	}
	db, err := state.Open(dir, opts.Log)
	if err != nil {
		return nil, err
	}
	generation.Audit(cfg, db, nil)
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	home := state.Home{Root: root}
	store := &branch.Store{
		Dir: home.Branches(), Guard: changeset.Guard(func() *config.Config { return cfg }, home, db.AddAudit, opts.Log),
	}
	return &Branches{workspace: workspace, cfg: cfg, home: home, store: store, db: db, log: opts.Log}, nil
}

// Close closes the state directory.
func (b *Branches) Close() error { return b.db.Close() }

// List returns the branches of the workspace, or of all workspaces.
func (b *Branches) List(all bool) ([]BranchInfo, error) {
	found, err := b.store.List()
	if err != nil {
		return nil, err
	}
	out := []BranchInfo{}
	for _, f := range found {
		if !all && f.Base != b.workspace {
			continue
		}
		out = append(out, changeset.Info(f))
	}
	return out, nil
}

// Orphans lists directories with files that are not complete branches. It searches the part of the state directory for
// branches. The error also contains the reason for each branch that cannot be read.
func (b *Branches) Orphans() ([]string, error) {
	all, err := b.store.Orphans()
	var out []string
	for _, o := range all {
		if o.Problem != nil {
			err = errors.Join(err, o.Problem)
		} else if !o.Empty {
			out = append(out, o.Dir)
		}
	}
	return out, err
}

func (b *Branches) find(name string) (*branch.Branch, error) {
	found, err := b.store.Find("", b.workspace, name)
	return found, changeset.Advise(err)
}

// Changes lists what a branch changes at the given paths and below them, or everywhere without paths.
func (b *Branches) Changes(name string, paths ...string) ([]BranchChange, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, err
	}
	changes, err := f.Changes()
	if err != nil {
		return nil, changeset.Advise(err)
	}
	relative := make([]string, len(paths))
	for i, p := range paths {
		if relative[i], err = b.relative(p); err != nil {
			return nil, err
		}
	}
	return change.Select(changes, relative...), nil
}

// relative converts a path to one that is relative to the workspace. If the argument is a relative path, it
// already is relative to the workspace.
func (b *Branches) relative(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	rel, err := filepath.Rel(b.workspace, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is not in the workspace %s", path, b.workspace)
	}
	return rel, nil
}

// Diff writes what a branch changes at the given paths as a unified diff. If a change is not a change of text, the diff
// only has a line that describes it. Every deleted or replaced path has a line.
func (b *Branches) Diff(w io.Writer, name string, paths ...string) error {
	f, err := b.find(name)
	if err != nil {
		return err
	}
	changes, err := b.Changes(name, paths...)
	if err != nil {
		return err
	}
	return f.Diff(w, changes)
}

// Describe describes a change in a few words, in one line.
func Describe(c BranchChange) string { return change.Describe(c) }

// ApplyOptions selects the changes of an apply.
type ApplyOptions struct {
	// Paths limits the apply to these paths and everything below them.
	Paths []string
	// Ours lists paths with conflicts that get the content of the branch. Theirs lists paths with conflicts that keep
	// the content of the workspace.
	Ours, Theirs []string
	// StopJobs ends the jobs that run in the branch. Without StopJobs, a running job makes the apply fail.
	StopJobs bool
}

// Apply makes the changes of a branch in the workspace: all, or none if there is a conflict.
func (b *Branches) Apply(ctx context.Context, name string, opts ApplyOptions) (*BranchOutcome, error) {
	f, err := b.take(ctx, name, !opts.StopJobs)
	if err != nil {
		return nil, err
	}
	sel := branch.Selection{Allowed: true} // the operator is the person who can be asked
	for _, l := range []struct {
		from []string
		to   *[]string
	}{{opts.Paths, &sel.Paths}, {opts.Ours, &sel.Ours}, {opts.Theirs, &sel.Theirs}} {
		for _, p := range l.from {
			rel, err := b.relative(p)
			if err != nil {
				return nil, err
			}
			*l.to = append(*l.to, rel)
		}
	}
	return b.set().Apply(f, sel)
}

func (b *Branches) set() *changeset.Set {
	return &changeset.Set{
		Store: b.store, Config: b.cfg, Home: b.home, Workspace: b.workspace, Audit: b.db.AddAudit, Log: b.log,
	}
}

// Revert undoes the last apply of a branch.
func (b *Branches) Revert(ctx context.Context, name string) (*BranchOutcome, error) {
	f, err := b.take(ctx, name, false)
	if err != nil {
		return nil, err
	}
	return b.set().Revert(f)
}

// Discard removes a branch with all its changes.
func (b *Branches) Discard(ctx context.Context, name string) error {
	f, err := b.take(ctx, name, false)
	if err != nil {
		return err
	}
	return b.set().Discard(f)
}

// Accept declares that a branch is complete although the machine stopped while the branch was in use. Until then, such
// a branch cannot be used.
func (b *Branches) Accept(name string) error {
	f, err := b.find(name)
	if err != nil {
		return err
	}
	return b.store.Accept(f)
}

// BranchCheckpoint is a copy of the layer of a branch.
type BranchCheckpoint = branch.Checkpoint

// Checkpoints lists the checkpoints of a branch, the oldest first.
func (b *Branches) Checkpoints(name string) ([]BranchCheckpoint, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, err
	}
	return f.Checkpoints()
}

// Checkpoint copies the changes of a branch, so that Restore can go back to them. If a host has mounted the branch, the
// jobs of the branch keep running.
func (b *Branches) Checkpoint(ctx context.Context, name, message string) (*BranchCheckpoint, error) {
	var made *BranchCheckpoint
	if b.inHost(ctx, name, control.OpCheckpoint, control.CheckpointArgs{Message: message}, &made) && made != nil {
		return made, nil
	}
	f, err := b.take(ctx, name, false)
	if err != nil {
		return nil, err
	}
	made, err = b.store.Checkpoint(f, message, b.rules())
	return made, changeset.Advise(err)
}

// BranchRestored describes a restore of a branch.
type BranchRestored = branch.Restored

// RestoreNotes returns sentences about the paths that a restore did not change.
func RestoreNotes(done *BranchRestored) []string { return changeset.RestoreNotes(done) }

// RestoreChanges returns the checkpoint to which Restore would reset a branch, and the changes that Restore would make
// in the branch. Number 0 means the last checkpoint.
func (b *Branches) RestoreChanges(name string, number int) (*BranchCheckpoint, []BranchChange, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, nil, err
	}
	to, err := f.FindCheckpoint(number)
	if err != nil {
		return nil, nil, changeset.Advise(err)
	}
	changes, _, err := f.Preview(to.Number, b.rules(), 0)
	return to, changes, err
}

// Restore resets a branch to a checkpoint. Number 0 means the last checkpoint. If a host has mounted the branch, the
// jobs of the branch keep running.
func (b *Branches) Restore(ctx context.Context, name string, number int) (*BranchRestored, error) {
	var done *BranchRestored
	if !b.inHost(ctx, name, control.OpRestore, control.CheckpointArgs{Number: number}, &done) || done == nil {
		f, err := b.take(ctx, name, false)
		if err != nil {
			return nil, err
		}
		if done, err = b.store.Restore(f, number, b.rules()); err != nil {
			err = changeset.Advise(err)
			b.set().Record("(branch restore)", name, 0, err)
			return nil, err
		}
	}
	b.set().Record("(branch restore)", name, 0, nil)
	return done, nil
}

// inHost sends an operation to each running host. The host that has mounted the branch carries it out. If no host does,
// inHost returns false. The caller then calls take. If a host cannot release the branch, the error of take contains the
// reason.
func (b *Branches) inHost(ctx context.Context, name, op string, args control.CheckpointArgs, result any) bool {
	f, err := b.find(name)
	if err != nil {
		return false
	}
	args.ID, args.SkipIgnored = f.ID(), b.rules().SkipIgnored
	for _, h := range control.Sockets(b.home.Control()) {
		var answer json.RawMessage
		if h.Ask(ctx, op, args, &answer) == nil && len(answer) > 0 && string(answer) != "null" {
			return json.Unmarshal(answer, result) == nil
		}
	}
	return false
}

// rules returns the rules for checkpoints that a person requests. The limits for automatic checkpoints do not
// apply to them.
func (b *Branches) rules() branch.CheckpointRules {
	return branch.CheckpointRules{SkipIgnored: !b.cfg.Workspace.Checkpoints.Ignored}
}

// take finds a branch and makes the running hosts unmount it. If keepJobs is true and jobs run in the branch,
// it returns an error instead.
func (b *Branches) take(ctx context.Context, name string, keepJobs bool) (*branch.Branch, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, err
	}
	return f, b.set().Release(ctx, f, keepJobs)
}
