package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/childcall"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/router"
)

// Commands enables the commands of a call to call tools.
type Commands interface {
	// Available reports whether commands can call tools on this host.
	Available() bool
	// Grant permits commands to call tools until the caller calls revoke. If the result "c" is nil, commands cannot call
	// tools.
	Grant(ctx context.Context, handle shim.Handler) (c *tool.Commands, revoke func())
}

// commands permits the commands of a tool to call other tools until the call ends.
func (d *Dispatcher) commands() Stage {
	if d.Commands == nil {
		return Stage{}
	}
	return Stage{Name: "commands", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if c.Identity.Tool.Commands {
				if granted, revoke := d.Commands.Grant(ctx, d.childCalls(c).Handle); granted != nil {
					c.Decision.Sent.Commands = granted
					c.Hold(revoke)
				}
			}
			return next(ctx, c)
		}
	}}
}

// childCalls returns the handler for child calls from the commands of a call. Child calls belong to the latest
// generation.
func (d *Dispatcher) childCalls(parent *Call) *childcall.Calls {
	return childcall.New(parent, func(req call.Request, parse func(*registry.Registry) *router.Command) childcall.Pending {
		return d.latest().beginInside(parent, req, parse)
	})
}
