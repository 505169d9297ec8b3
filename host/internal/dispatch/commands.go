package dispatch

import (
	"context"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/router"
)

// Commands enables the commands of a call to call tools.
type Commands interface {
	// Available reports whether commands can call tools on this host.
	Available() bool
	// Grant permits commands to call tools until the caller calls revoke. If the result "c" is nil, commands cannot
	// call tools.
	Grant(ctx context.Context, handle shim.Handler) (c *tool.Commands, revoke func())
}

// ChildCalls permits calls to call other tools. Its fields must not change after the first call.
type ChildCalls struct {
	Host    Host
	Plugins Plugins
	// Commands permits commands to call tools. A nil Commands forbids these calls.
	Commands Commands
}

// Stage permits the code of a tool, and the commands that it starts, to call other tools until the call ends.
func (s *ChildCalls) Stage() Stage {
	return Stage{Name: "commands", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			var children *childCalls // made by the first child call, because few calls have children
			made := sync.OnceFunc(func() { children = s.callsOf(c) })
			c.CallTool = func(ctx context.Context, t *tool.ToolCall) *tool.Result {
				made()
				return children.Call(ctx, t, func(name string) bool {
					return s.Plugins.MayCall(c.Identity.Tool.Plugin, name)
				})
			}
			if s.Commands != nil && c.Identity.Tool.Commands {
				made()
				if granted, revoke := s.Commands.Grant(ctx, children.Handle); granted != nil {
					c.Decision.Sent.Commands = granted
					c.Hold(revoke)
				}
			}
			return next(ctx, c)
		}
	}}
}

// callsOf returns the handler for child calls from the commands of a call. Child calls belong to the latest
// generation.
func (s *ChildCalls) callsOf(parent *Call) *childCalls {
	return newChildCalls(parent, func(req call.Request, parse func(*registry.Registry) *router.Command) pendingChild {
		return s.Host.Latest().beginInside(parent, req, parse)
	})
}
