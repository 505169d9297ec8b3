package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// reauthorize applies the policy again if the call had to wait. During the wait, earlier calls can change a symbolic
// link or replace a directory by a link. reauthorize also checks again that the audit log can be written, because
// waiting for a person can take long.
func (d *Dispatcher) reauthorize() Stage {
	return Stage{Name: "reauthorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if res := d.unrecordable(c); res != nil {
				return res
			}
			if !c.Outcome.Waited {
				return next(ctx, c)
			}
			if decision, err := d.Policy.Recheck(d.question(c)); err != nil {
				c.Decision.Policy = decision
				return call.Refused(err)
			}
			return next(ctx, c)
		}
	}}
}
