package dispatch

import (
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
)

// deadline applies the configured timeout to the whole call, including all waits.
func (d *Dispatcher) deadline() Stage {
	return Stage{Name: "deadline", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			c.Outcome.Limit = d.configured(c.Identity.Tool)
			ctx, cancel := context.WithTimeout(ctx, c.Outcome.Limit)
			defer cancel()
			return next(ctx, c)
		}
	}}
}

// configured returns the timeout of a tool. For a tool without a timeout, it returns the general timeout of the
// configuration.
func (d *Dispatcher) configured(e *registry.Entry) time.Duration {
	switch t := e.Timeout; {
	case t < 0:
		return call.MaxTimeout
	case t > 0:
		return t
	}
	return d.Timeout
}

// gaveUp returns the result of a call that ended while it waited. The argument err is the reason.
func gaveUp(ctx context.Context, c *Call, err error, waitedFor string) *tool.Result {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = tool.Errorf(tool.Timeout, "%[1]s did not start within %[2]s because it waited for %[3]s. Try again later, or raise the limit in the configuration: tool %[1]q { timeout = \"…\" }.",
			c.Identity.Tool.FullName(), c.Outcome.Limit, waitedFor)
	}
	res := call.Refused(err)
	res.Run.QueueTime = time.Since(c.Identity.Started)
	return res
}

// notPermitted returns the result of a call that a hook or a rule denied. It also handles a timeout during the decision.
func notPermitted(ctx context.Context, c *Call, err error) *tool.Result {
	if ctx.Err() == nil {
		return call.Refused(err)
	}
	return gaveUp(ctx, c, err, "hooks or a person's answer")
}
