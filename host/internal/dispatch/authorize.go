package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// authorize applies the policy. The policy can deny the call, ask a person, or set arguments.
func (d *Dispatcher) authorize() Stage {
	return Stage{Name: "authorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			q := c.Question()
			var err error
			c.Decision.Policy, err = d.Policy.Check(ctx, q, c.Client, c.Answers(d.State))
			if len(c.Decision.Policy.Rewritten) > 0 {
				c.Decision.Arguments, c.Decision.Sent.Arguments = q.Args, call.Object(q.Args)
			}
			if err != nil {
				return notPermitted(ctx, c, err)
			}
			return next(ctx, c)
		}
	}}
}
