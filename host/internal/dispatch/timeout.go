package dispatch

import (
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
)

// timeout lowers the timeout to the time that recent calls of the tool needed. If a timeout ends the call, it explains
// the timeout in the result. The stage "timeout" runs inside "hooks", because hooks must receive the final message. It
// surrounds "session", because "session" needs the original message of the tool.
func (d *Dispatcher) timeout() Stage {
	shorten := func(ctx context.Context, _ *Call) (context.Context, context.CancelFunc) { return ctx, func() {} }
	if d.Adaptive != nil {
		shorten = d.shortenTimeout
	}
	return Stage{Name: "timeout", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			ctx, cancel := shorten(ctx, c)
			defer cancel()
			res := next(ctx, c)
			d.describeTimeout(ctx, c, res)
			return res
		}
	}}
}

// shortenTimeout lowers the timeout to the time that recent calls of the tool needed. The new timeout starts now,
// because the measured times do not include waits, for example for a person's answer.
func (d *Dispatcher) shortenTimeout(ctx context.Context, c *Call) (context.Context, context.CancelFunc) {
	e := c.Identity.Tool
	if e.Timeout < 0 {
		return ctx, func() {}
	}
	limit := adaptive.ToolTimeout(d.Metrics.Tool(e.FullName()), c.Outcome.Limit)
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= limit {
		return ctx, func() {}
	}
	c.Outcome.Limit = limit
	return context.WithTimeout(ctx, limit)
}

// describeTimeout adds the exceeded limit to the error of a timeout, because the tool does not know the limit.
func (d *Dispatcher) describeTimeout(ctx context.Context, c *Call, res *tool.Result) {
	if res.Error == nil || res.Error.Kind != tool.Timeout || !expired(ctx) {
		return
	}
	name, limit := c.Identity.Tool.FullName(), c.Outcome.Limit
	if limit < d.configured(c.Identity.Tool) {
		res.Error = tool.Errorf(tool.Timeout, "%s was stopped after %s, a limit that adaptive mode derived from earlier calls. Ask for less, or set adaptive = false in the host block of the configuration.",
			name, limit).From(res.Error.Source)
		return
	}
	res.Error = tool.Errorf(tool.Timeout, "%s took longer than %s and was stopped. Ask for less, or raise the limit in the configuration: tool %q { timeout = \"…\" }.",
		name, limit, name).From(res.Error.Source)
}

// expired reports whether the deadline of ctx has passed. It does not rely on ctx.Err alone: a plugin receives the same
// deadline, and its answer can arrive before the host's own timer fires.
func expired(ctx context.Context) bool {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	end, ok := ctx.Deadline()
	return ok && ctx.Err() == nil && !time.Now().Before(end)
}
