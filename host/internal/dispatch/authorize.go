package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// authorize applies the policy, which may refuse the call, ask a person, or set arguments.
func (d *Dispatcher) authorize() Stage {
	return Stage{Name: "authorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			q := question(c)
			var err error
			c.Decision.Policy, err = d.Policy.Check(ctx, q, c.front, d.answers(c))
			if len(c.Decision.Policy.Rewritten) > 0 {
				c.Decision.Arguments, c.Decision.Sent.Arguments = q.Args, object(q.Args)
			}
			if err != nil {
				return c.notPermitted(ctx, err)
			}
			return next(ctx, c)
		}
	}}
}

// question returns the call as the policy sees it.
func question(c *Call) *policy.Request {
	e := c.Identity.Tool
	return &policy.Request{
		Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Call: c.Decision.Sent, Args: c.Decision.Arguments,
		Workspace: c.Request.Session.Workspace, Shell: e.Definition.Name == Shell,
	}
}
