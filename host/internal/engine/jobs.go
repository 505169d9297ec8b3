package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/branch"
	"toolhost.dev/host/internal/changeset"
)

// jobsTimeout limits the time for which a host waits for the list of jobs.
const jobsTimeout = 5 * time.Second

// BranchJobsError means that jobs run in a branch, which end when it is applied.
type BranchJobsError struct {
	Name string
	Jobs []string
}

func (e *BranchJobsError) Error() string {
	return fmt.Sprintf("nothing was applied, because these jobs still run in the branch %s and can change it:\n  %s\nWait until they end, end them (job kill ID), or apply with --stop-jobs (in the API: \"stop_jobs\": true), which ends them", e.Name, strings.Join(e.Jobs, "\n  "))
}

// jobs lists the background jobs of a mounted branch, one in a line.
func (e *Engine) jobs(ctx context.Context, id string) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, jobsTimeout)
	defer cancel()
	key, sessions := e.branches.Sessions(id)
	for _, session := range sessions {
		call := &tool.Call{ID: "jobs-" + session, Tool: "job", SessionID: session, Arguments: json.RawMessage(`{"action":"list","lines":50,"timeout":30000}`)}
		for _, res := range e.super.CallBranch(ctx, key, call) {
			var list struct {
				Jobs []struct {
					ID, Command         string
					Running, Foreground bool
				} `json:"jobs"`
			}
			if json.Unmarshal(res.Data, &list) != nil {
				continue // another plugin can have a tool of this name
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

// The method "release" unmounts a branch in all hosts, and with it the branch that a preview is about. If keep is true, it
// returns a [BranchJobsError] if jobs run in one of them.
func (e *Engine) release(ctx context.Context, b *branch.Branch, set *changeset.Set, keep bool) error {
	for _, id := range []string{b.ID(), b.ParentID()} {
		if id == "" {
			continue
		}
		if err := e.releaseBranch(ctx, id, b.Name, keep); err != nil {
			return err
		}
	}
	return set.Release(ctx, b, keep)
}

func (e *Engine) releaseBranch(ctx context.Context, id, name string, keep bool) error {
	if keep {
		if jobs := e.jobs(ctx, id); len(jobs) > 0 {
			return &BranchJobsError{Name: name, Jobs: jobs}
		}
	}
	if !e.branches.Release(id) {
		return errBusy
	}
	return nil
}
