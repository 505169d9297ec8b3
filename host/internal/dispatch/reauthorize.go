package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// Reauthorize applies the policy again if the call had to wait for other calls or for a person. During the wait, other
// calls can change a symbolic link or replace a directory by a link. Reauthorize also checks again that the audit log
// can be written, because a wait for a person can be long.
func (p *Permissions) Reauthorize() Stage {
	return Stage{Name: "reauthorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if res := unrecordable(p.State, c); res != nil {
				return res
			}
			earlier := c.Decision.Policy
			if !c.Outcome.Waited && (earlier == nil || earlier.Answered == "") {
				return next(ctx, c)
			}
			if decision, err := p.Policy.Recheck(question(c, p.Policy, p.State), earlier); err != nil {
				c.Decision.Policy = decision
				return call.Refused(err)
			}
			return next(ctx, c)
		}
	}}
}
