package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// queue waits until earlier calls of the session end. A child call does not wait, because it shares the queue position
// of its parent.
func (d *Dispatcher) queue() Stage {
	return Stage{Name: "queue", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			ticket := c.Ticket
			c.Ticket = nil // Wait always ends the ticket, even if it returns an error
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
