package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// queue waits for the call's turn in its session. A call that runs inside another one shares that call's turn.
func (d *Dispatcher) queue() Stage {
	return Stage{Name: "queue", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			ticket := c.ticket
			c.ticket = nil // Wait ends it, also if it fails
			c.Outcome.Waited = ticket.Waits()
			done, err := ticket.Wait(ctx)
			if err != nil {
				return c.gaveUp(ctx, err, "other calls")
			}
			c.hold(done)
			return next(ctx, c)
		}
	}}
}
