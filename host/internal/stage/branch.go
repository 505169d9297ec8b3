package stage

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
)

// Branch runs calls of the bundled tool with the role "branch". The stage must run after the policy has decided about
// the call. For an apply, the policy p also decides about each path in the workspace that the apply changes.
func Branch(p *policy.Policy, db *state.DB) Stage {
	return Stage{Name: string(tool.RoleBranch), Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			s := &c.Request.Session
			if e := c.Identity.Tool; s.Branches == nil || !e.Bundled || !e.Has(tool.RoleBranch) {
				return next(ctx, c)
			}
			var a call.BranchArguments
			if err := json.Unmarshal(c.Decision.Sent.Arguments, &a); err != nil {
				return call.Refused(tool.Errorf(tool.InvalidArguments, "The arguments of branch cannot be read: %w.", err))
			}
			q := c.Question()
			return s.Branches(*s).Branch(ctx, a, call.Review{
				Peer: c.Peer(p, db), Inside: c.Identity.Depth > 0,
				Reads: func(path string) error { return p.Reads(q.Call, path) },
			})
		}
	}}
}
