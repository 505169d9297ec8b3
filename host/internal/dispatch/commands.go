package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/shim"
)

// Commands lets the commands that a call starts call tools.
type Commands interface {
	// Available reports whether commands can call tools on this host.
	Available() bool
	// Grant lets commands call tools until revoke is called. A nil result means that they cannot.
	Grant(ctx context.Context, handle shim.Handler) (c *tool.Commands, revoke func())
}

// commands grants tool calls to the commands that the tool starts, until the call ends.
func (d *Dispatcher) commands() Stage {
	if d.Commands == nil {
		return Stage{}
	}
	return Stage{Name: "commands", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if c.Identity.Tool.Commands {
				if granted, revoke := d.Commands.Grant(ctx, d.childCalls(c).handle); granted != nil {
					c.Decision.Sent.Commands = granted
					c.hold(revoke)
				}
			}
			return next(ctx, c)
		}
	}}
}
