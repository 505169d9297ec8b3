package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// queue waits for the call's turn in its session. A child call shares the turn of its parent.
func (d *Dispatcher) queue() Stage {
	return Stage{Name: "queue", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			ticket := c.Ticket
			c.Ticket = nil // Wait ends the ticket even if it fails
			c.Outcome.Waited = ticket.Waits()
			done, err := ticket.Wait(ctx)
			if err != nil {
				return gaveUp(ctx, c, err, "other calls")
			}
			c.Hold(done)
			return next(ctx, c)
		}
	}}
}
