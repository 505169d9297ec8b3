package engine

import (
	"context"
	"net/url"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/reload"
)

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

// Renew applies changed pins and approvals.
func (e *Engine) Renew(ctx context.Context, by string) (*reload.Report, error) {
	e.reloader.Renew()
	return e.reloader.Reload(ctx, reload.Options{By: by})
}
