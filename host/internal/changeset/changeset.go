// Package changeset applies, reverts and discards branches. It also runs the guards of the sandbox for new files and
// writes to the audit log. Most callers want [Set.Apply].
//
// [BranchTool] runs calls of the tool "branch", with which agents inspect and apply branches. [Checkpoints] makes a
// checkpoint before a call and carries out calls of the tool "undo" in a branch.
package changeset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/state"
)

// Set provides the operations on the branches of one workspace for one principal. It is safe for concurrent use.
type Set struct {
	Store     *branch.Store
	Config    *config.Config
	Home      state.Home
	Workspace string
	// Principal is the name of the caller, for the audit log. Empty means the local user.
	Principal string
	Audit     func(state.AuditEntry)
	Log       *slog.Logger
}

// Apply makes the selected changes of a branch in the workspace. If one of them has a conflict, it makes none of them.
// The branch must not be mounted.
func (s *Set) Apply(b *branch.Branch, sel branch.Selection) (*branch.Outcome, error) {
	var notes []string
	parts := partsOf(s.Home, s.Audit, s.Log)
	// The search of the workspace takes as long as the comparison, so both run at the same time.
	var after func() []string
	var refused error
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		after, refused = confinement.GuardApply(s.Config, parts, s.Workspace)
	}()
	sel.Before = func() error {
		<-guarded
		return refused
	}
	out, err := s.Store.Apply(b, sel)
	err = Advise(err)
	// Search even if this apply changed nothing. The search also covers changes that a killed process applied but did
	// not search.
	if <-guarded; refused == nil {
		if notes = after(); len(notes) > 0 {
			err = errors.Join(err, s.Store.Settle(b))
		}
	}
	err = errors.Join(err, parts.Repositories.Stop())
	if out != nil {
		out.Notes = append(out.Notes, notes...)
	}
	s.Record("(branch apply)", b.Name, changesOf(out), err)
	return out, err
}

// partsOf returns what an apply needs to guard the workspace.
func partsOf(home state.Home, audit func(state.AuditEntry), log *slog.Logger) *confinement.Parts {
	return &confinement.Parts{
		Home: home, Audit: audit, Log: log, Repositories: confinement.NewRepositories(home, audit, log),
	}
}

func changesOf(out *branch.Outcome) int {
	if out == nil {
		return 0
	}
	return len(out.Changes)
}

// Guard returns the guard of a configuration for applies that killed processes began. The guard logs everything that it
// removed.
func Guard(cfg func() *config.Config, home state.Home, audit func(state.AuditEntry), log *slog.Logger) branch.Guard {
	return func(base string) (func() bool, error) {
		parts := partsOf(home, audit, log)
		after, err := confinement.GuardApply(cfg(), parts, base)
		if err != nil {
			return nil, errors.Join(err, parts.Repositories.Stop())
		}
		return func() bool {
			notes := after()
			for _, note := range notes {
				log.Warn(note)
			}
			if err := parts.Repositories.Stop(); err != nil {
				log.Warn("the record of the repositories cannot be removed", "error", err)
			}
			return len(notes) > 0
		}, nil
	}
}

// Revert takes back the last apply of a branch.
func (s *Set) Revert(b *branch.Branch) (*branch.Outcome, error) {
	out, err := s.Store.Revert(b)
	s.Record("(branch revert)", b.Name, changesOf(out), err)
	return out, err
}

// Discard removes a branch with all its changes.
func (s *Set) Discard(b *branch.Branch) error {
	err := s.Store.Discard(b)
	// The record does not contain the number of changes, because counting takes longer than discarding.
	s.record("(branch discard)", map[string]any{"branch": b.Name}, err)
	return err
}

// Release makes the other hosts of the state directory unmount a branch. If b is a preview of another branch, they
// unmount the other branch as well. Release returns an error if one of these hosts runs a call in one of the branches,
// or a job if keepJobs is true.
func (s *Set) Release(ctx context.Context, b *branch.Branch, keepJobs bool) error {
	for _, h := range control.Sockets(s.Home.Control()) {
		if h.PID == os.Getpid() {
			continue
		}
		for _, id := range []string{b.ID(), b.ParentID()} {
			if id == "" {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
			err := h.Ask(ctx, control.OpReleaseBranch,
				control.ReleaseBranchArgs{ID: id, Name: b.Name, KeepJobs: keepJobs}, &struct{}{})
			cancel()
			if err != nil {
				return fmt.Errorf("the branch %s is in use by the process %d: %w", b.Name, h.PID, err)
			}
		}
	}
	return nil
}

// releaseTimeout limits the time in which a host ends the processes of a branch.
const releaseTimeout = 10 * time.Second

// Record adds an operation on a branch to the audit log.
func (s *Set) Record(what, name string, changes int, err error) {
	s.record(what, map[string]any{"branch": name, "changes": changes}, err)
}

func (s *Set) record(what string, of map[string]any, err error) {
	arguments, _ := json.Marshal(of) // the error is ignored, because these values can always be encoded
	e := state.AuditEntry{At: time.Now(), Principal: s.Principal, Workspace: s.Workspace, Tool: what,
		Arguments: arguments, Outcome: "success"}
	if err != nil {
		e.Outcome, e.Error = "execution_failed", err.Error()
	}
	s.Audit(e)
}
