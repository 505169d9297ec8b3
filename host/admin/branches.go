package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"toolhost.dev/host/internal/branch"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/config"
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

// PreviewPrefix begins the names of branches for previews. They are removed a day after they were made.
const PreviewPrefix = branch.PreviewPrefix

// BranchChange is what a branch changes at one path.
type BranchChange = branch.Change

// BranchOutcome describes an apply or a revert.
type BranchOutcome = branch.Outcome

// BranchConflictError is the error of an apply that changed nothing, because the branch and the workspace changed the same
// paths.
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
	store := &branch.Store{Dir: home.Branches(), Guard: changeset.Guard(func() *config.Config { return cfg }, home, db.AddAudit, opts.Log)}
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
		out = append(out, f.Info())
	}
	return out, nil
}

// Orphans lists the directories of the state directory that are not complete branches, but have files.
func (b *Branches) Orphans() ([]string, error) {
	all, err := b.store.Orphans()
	var out []string
	for _, o := range all {
		if !o.Empty {
			out = append(out, o.Dir)
		}
	}
	return out, err
}

func (b *Branches) find(name string) (*branch.Branch, error) {
	return b.store.Find("", b.workspace, name)
}

// Changes lists what a branch changes at the given paths and below them, or everywhere without paths.
func (b *Branches) Changes(name string, paths ...string) ([]BranchChange, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, err
	}
	changes, err := f.Changes()
	if err != nil {
		return nil, err
	}
	relative := make([]string, len(paths))
	for i, p := range paths {
		if relative[i], err = b.relative(p); err != nil {
			return nil, err
		}
	}
	return branch.Select(changes, relative...), nil
}

// relative returns a path relative to the workspace. A relative path is relative to the workspace.
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

// Diff writes what a branch changes at the given paths as a unified diff. It shows changes that are not text in one line
// each. It always shows every deleted and every replaced path.
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
func Describe(c BranchChange) string { return branch.Describe(c) }

// ApplyOptions selects the changes of an apply.
type ApplyOptions struct {
	// Paths limits the apply to these paths and what is below them.
	Paths []string
	// Ours lists paths with conflicts for which the branch decides, and Theirs those for which the workspace decides.
	Ours, Theirs []string
	// StopJobs ends the jobs that run in the branch. Otherwise they refuse the apply.
	StopJobs bool
}

// Apply makes the changes of a branch in the workspace: all, or none if there is a conflict.
func (b *Branches) Apply(ctx context.Context, name string, opts ApplyOptions) (*BranchOutcome, error) {
	f, err := b.take(ctx, name, !opts.StopJobs)
	if err != nil {
		return nil, err
	}
	var sel branch.Selection
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
	return &changeset.Set{Store: b.store, Config: b.cfg, Home: b.home, Workspace: b.workspace, Audit: b.db.AddAudit, Log: b.log}
}

// Revert takes back the last apply of a branch.
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

// Accept declares that a branch is complete although the machine stopped while it was in use.
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

// Checkpoint copies the changes of a branch, so that Restore can go back to them. It ends the processes of the branch.
func (b *Branches) Checkpoint(ctx context.Context, name, message string) (*BranchCheckpoint, error) {
	f, err := b.take(ctx, name, false)
	if err != nil {
		return nil, err
	}
	return b.store.Checkpoint(f, message, b.rules())
}

// Restore makes a branch what it was at a checkpoint. Number 0 means the last one. The second result is a checkpoint of the
// branch before the restore.
func (b *Branches) Restore(ctx context.Context, name string, number int) (restored, saved *BranchCheckpoint, err error) {
	f, err := b.take(ctx, name, false)
	if err != nil {
		return nil, nil, err
	}
	restored, saved, err = b.store.Restore(f, number, b.rules())
	b.set().Record("(branch restore)", name, 0, err)
	return restored, saved, err
}

// rules returns the rules of checkpoints that somebody asks for, which are always kept.
func (b *Branches) rules() branch.CheckpointRules {
	return branch.CheckpointRules{SkipIgnored: !b.cfg.Workspace.Checkpoints.Ignored}
}

// take finds a branch and makes the running hosts unmount it. If keepJobs is true, it returns an error if jobs run in it.
func (b *Branches) take(ctx context.Context, name string, keepJobs bool) (*branch.Branch, error) {
	f, err := b.find(name)
	if err != nil {
		return nil, err
	}
	return f, b.set().Release(ctx, f, keepJobs)
}
