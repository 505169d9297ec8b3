package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// reauthorize applies the policy again if the call had to wait. Earlier calls can have changed a link or replaced a
// directory by a link. It also checks again that the call can be recorded, because a person's answer can take long, too.
func (d *Dispatcher) reauthorize() Stage {
	return Stage{Name: "reauthorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if res := d.unrecordable(c); res != nil {
				return res
			}
			if !c.Outcome.Waited {
				return next(ctx, c)
			}
			if decision, err := d.Policy.Recheck(c.Question()); err != nil {
				c.Decision.Policy = decision
				return call.Refused(err)
			}
			return next(ctx, c)
		}
	}}
}
