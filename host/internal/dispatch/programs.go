package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// programs records the programs that a call executes, and judges them before they run.
func (d *Dispatcher) programs() Stage {
	if d.Programs == nil {
		return Stage{}
	}
	return Stage{Name: "programs", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			sent, token := c.Decision.Sent, ""
			if sent.Commands != nil {
				token = sent.Commands.Token
			}
			executed := d.Programs(ctx, c.Identity.Tool.Plugin, c.Request.Session.Principal.Owner(), sent.Roots, token, nil)
			if executed == nil {
				return next(ctx, c)
			}
			res := next(ctx, c)
			c.Outcome.Programs, c.Outcome.Refused = executed.End()
			return res
		}
	}}
}
