package stage

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
)

// Ledger records a call before the call runs. It records a call only if another host can continue the session and the
// call can change something. A child call needs no record of its own, because the record of its parent covers it.
func Ledger() Stage {
	return Stage{Name: "ledger", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			l := c.Request.Session.Ledger
			if l == nil || c.Identity.Depth > 0 {
				return next(ctx, c)
			}
			if !repeatable(c) {
				if err := l.Begin(ctx, c.Identity.Tool.FullName()); err != nil {
					return call.Refused(err)
				}
			}
			return next(ctx, c)
		}
	}}
}

// repeatable reports whether a call can run a second time, on another host, because it changes nothing.
func repeatable(c *call.Call) bool {
	return c.Identity.Tool.Definition.Traits.ReadOnly || claim.ReadsOnly(c)
}
