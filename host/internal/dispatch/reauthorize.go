package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// reauthorize applies the policy again if the call had to wait for other calls or for a person. During the wait, other
// calls can change a symbolic link or replace a directory by a link. reauthorize also checks again that the audit log
// can be written, because a wait for a person can be long.
func (d *Dispatcher) reauthorize() Stage {
	return Stage{Name: "reauthorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if res := d.unrecordable(c); res != nil {
				return res
			}
			earlier := c.Decision.Policy
			if !c.Outcome.Waited && (earlier == nil || earlier.Answered == "") {
				return next(ctx, c)
			}
			if decision, err := d.Policy.Recheck(d.question(c), earlier); err != nil {
				c.Decision.Policy = decision
				return call.Refused(err)
			}
			return next(ctx, c)
		}
	}}
}
