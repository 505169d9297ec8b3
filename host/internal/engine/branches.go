package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/control"
)

// jobsTimeout limits the time for which a host waits for the list of jobs.
const jobsTimeout = 5 * time.Second

// BranchJobsError means that a branch was not applied, because the apply would end the jobs that run in the branch.
type BranchJobsError struct {
	Name string
	Jobs []string
	// Tool is the name of the tool that can end jobs. It is empty if no tool can.
	Tool string
}

func (e *BranchJobsError) Error() string {
	return fmt.Sprintf("nothing was applied, because these jobs still run in the branch %s and can change it:\n  %s\nWait until they end, end them%s, or apply with --stop-jobs (in the API: \"stop_jobs\": true), which ends them", e.Name, strings.Join(e.Jobs, "\n  "), killing(e.Tool))
}

// killing returns a remark with the command that ends a job. It returns "" if no tool can end jobs.
func killing(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + " kill ID)"
}

// jobsTool returns the name of the tool for jobs, or "" for no such tool.
func (e *Engine) jobsTool() string { return e.Current().Registry.RoleName(tool.RoleJobs) }

// jobs lists the background jobs of a mounted branch, with one line for each job.
func (e *Engine) jobs(ctx context.Context, id string) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, jobsTimeout)
	defer cancel()
	key, sessions := e.branches.Sessions(id)
	name := e.jobsTool()
	for _, session := range sessions {
		call := &tool.Call{ID: "jobs-" + session, Tool: name, SessionID: session, Arguments: json.RawMessage(`{"action":"list","lines":50,"timeout":30000}`)}
		for _, res := range e.super.CallBranch(ctx, key, call) {
			var list struct {
				Jobs []struct {
					ID, Command         string
					Running, Foreground bool
				} `json:"jobs"`
			}
			if json.Unmarshal(res.Data, &list) != nil {
				continue // a tool of another plugin can have the same name
			}
			for _, j := range list.Jobs {
				if j.Running && !j.Foreground {
					out = append(out, fmt.Sprintf("%s (%s), of the session %s", j.ID, j.Command, session))
				}
			}
		}
	}
	return out
}

// release unmounts a branch in all hosts. If the branch is a preview of another branch, release also
// unmounts that branch. If keep is true and jobs run in one of these branches, it returns a [BranchJobsError].
func (e *Engine) release(ctx context.Context, b *branch.Branch, set *changeset.Set, keep bool) error {
	for _, id := range []string{b.ID(), b.ParentID()} {
		if id == "" {
			continue
		}
		if err := e.releaseBranch(ctx, id, b.Name, 0, keep); err != nil {
			return err
		}
	}
	return set.Release(ctx, b, keep)
}

// releaseBranch unmounts a branch in this host. The argument "own" is the number of running calls in the branch that
// belong to the caller. Other running calls prevent the release.
func (e *Engine) releaseBranch(ctx context.Context, id, name string, own int, keep bool) error {
	if keep {
		if jobs := e.jobs(ctx, id); len(jobs) > 0 {
			return &BranchJobsError{Name: name, Jobs: jobs, Tool: e.jobsTool()}
		}
	}
	if !e.branches.ReleaseFor(id, own) {
		return errBusy
	}
	return nil
}

// controlBranch releases a branch for another process. It passes operations on checkpoints to controlCheckpoint.
func (e *Engine) controlBranch(ctx context.Context, op string, args json.RawMessage) (any, error) {
	if op != control.OpReleaseBranch {
		return e.controlCheckpoint(ctx, op, args)
	}
	var a control.ReleaseBranchArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	return struct{}{}, e.releaseBranch(ctx, a.ID, a.Name, 0, a.KeepJobs)
}

// controlCheckpoint makes or restores a checkpoint for a person. It returns nil if this host has not mounted the
// branch.
func (e *Engine) controlCheckpoint(ctx context.Context, op string, args json.RawMessage) (any, error) {
	var a control.CheckpointArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	rules := branch.CheckpointRules{SkipIgnored: a.SkipIgnored}
	var out any
	var err error
	if op == control.OpCheckpoint {
		out, err = e.branches.Checkpoint(a.ID, 0, a.Message, rules)
	} else {
		var done *branch.Restored
		if done, err = e.branches.Restore(a.ID, 0, a.Number, false, rules); err == nil && done.Ended == "" {
			done.Jobs = e.jobs(ctx, a.ID)
		}
		out = done
	}
	if errors.Is(err, branch.ErrNotMounted) {
		return nil, nil
	}
	return out, changeset.Advise(err)
}

// BranchInfo describes a branch.
type BranchInfo = branch.Info

// Branches returns the branches that a principal can see: its own branches, and the branches of principals that it
// supervises.
func (e *Engine) Branches(who *Principal) ([]BranchInfo, error) {
	out := []BranchInfo{}
	if e.branches.Store == nil {
		return out, nil
	}
	all, err := e.branches.Store.List()
	for _, b := range all {
		if seesBranch(who, b) {
			out = append(out, changeset.Info(b))
		}
	}
	return out, err
}

func seesBranch(who *Principal, b *branch.Branch) bool {
	if b.Owner == who.Owner() {
		return true
	}
	name, err := url.QueryUnescape(b.Owner)
	return err == nil && who.Sees(name)
}

// branchWithID returns a branch that a principal can see.
func (e *Engine) branchWithID(who *Principal, id string) (*branch.Branch, *changeset.Set, error) {
	if e.branches.Store != nil {
		all, err := e.branches.Store.List()
		if err != nil {
			return nil, nil, err
		}
		for _, b := range all {
			if b.ID() == id && seesBranch(who, b) {
				return b, e.changeset(e.Current(), who, b.Base), nil
			}
		}
	}
	return nil, nil, tool.Errorf(tool.NotFound, "No branch has the id %.80q. Read GET /v1/branches again.", id)
}

// BranchWithID returns a branch with its changes and a diff of about limit bytes.
func (e *Engine) BranchWithID(who *Principal, id string,
	limit int) (info BranchInfo, changes []BranchChange, diff string, err error) {
	b, _, err := e.branchWithID(who, id)
	if err != nil {
		return info, nil, "", err
	}
	if changes, err = b.Changes(); err != nil {
		return info, nil, "", changeset.Advise(err)
	}
	diff, err = b.ShortDiff(changes, limit)
	return changeset.Info(b), append([]BranchChange{}, changes...), diff, err
}

// ApplyBranchWithID applies a branch that a principal can see. If stopJobs is false and jobs run in the branch, it
// returns an error.
func (e *Engine) ApplyBranchWithID(ctx context.Context, who *Principal, id string,
	stopJobs bool) (*BranchOutcome, error) {
	b, set, err := e.branchWithID(who, id)
	if err == nil {
		err = e.release(ctx, b, set, !stopJobs)
	}
	if err != nil {
		return nil, err
	}
	out, err := set.Apply(b, branch.Selection{Allowed: who.Confirms(b.Owner)})
	e.reloader.Builder.Calls.Roots.Forget()
	return out, err
}

// DiscardBranchWithID removes a branch that a principal can see.
func (e *Engine) DiscardBranchWithID(ctx context.Context, who *Principal, id string) error {
	b, set, err := e.branchWithID(who, id)
	if err == nil {
		err = e.release(ctx, b, set, false)
	}
	if err != nil {
		return err
	}
	return set.Discard(b)
}
