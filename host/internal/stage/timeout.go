package stage

import (
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/telemetry"
)

// Timeouts applies the timeout of the tool. The timeout starts here, so it does not include the time in queues or the
// wait for a person's answer. In adaptive mode the timeout can be shorter. If the timeout or the caller ends the call,
// the host explains the end in the result. The stage "timeout" runs inside "hooks", because hooks must receive the
// final message. It surrounds the stage "session", which needs the original message of the tool.
func (l *Limits) Timeouts() Stage {
	return Stage{Name: "timeout", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			c.Outcome.Limit = l.limitOf(c.Identity.Tool)
			limited, cancel := context.WithTimeout(ctx, c.Outcome.Limit)
			defer cancel()
			res := next(limited, c)
			l.describeEnd(ctx, limited, c, res)
			return res
		}
	}}
}

// configured returns the timeout of a tool. For a tool without a timeout, it returns the general timeout of the
// configuration.
func (l *Limits) configured(e *registry.Entry) time.Duration {
	switch t := e.Timeout; {
	case t < 0:
		return call.MaxTimeout
	case t > 0:
		return t
	}
	return l.Timeout
}

// limitOf returns the timeout of a tool. In adaptive mode, recent calls of the tool can lower the timeout.
func (l *Limits) limitOf(e *registry.Entry) time.Duration {
	limit := l.configured(e)
	if l.Adaptive == nil || e.Timeout < 0 {
		return limit
	}
	return adaptive.ToolTimeout(l.Metrics.Tool(e.FullName()), limit)
}

// describeEnd replaces the error of a call that the host ended. The tool and the transport describe the end
// differently, so their errors depend on timing. A call that nevertheless succeeded keeps its result. The argument
// "ctx" is the context of the caller. The context "limited" also has the timeout of the call.
func (l *Limits) describeEnd(ctx, limited context.Context, c *call.Call, res *tool.Result) {
	if res.Error == nil {
		return
	}
	name, limit := c.Identity.Tool.FullName(), c.Outcome.Limit
	switch {
	case ctx.Err() != nil:
		res.Error = Canceled(ctx, name)
	case !expired(limited):
	case limit < l.configured(c.Identity.Tool):
		res.Error = tool.Errorf(tool.Timeout, "%s was stopped after %s, a limit that adaptive mode derived from earlier calls. Ask for less, or set adaptive = false in the host block of the configuration.",
			name, limit).From(tool.SourceHost)
	default:
		res.Error = tool.Errorf(tool.Timeout, "%s took longer than %s and was stopped. Ask for less, or raise the limit in the configuration: tool %q { timeout = \"…\" }.",
			name, limit, name).From(tool.SourceHost)
	}
}

// expired reports whether the deadline of ctx has passed. It does not rely on ctx.Err alone. A plugin receives the same
// deadline, and its answer can arrive before the timer of the host fires.
func expired(ctx context.Context) bool {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	end, ok := ctx.Deadline()
	return ok && ctx.Err() == nil && !time.Now().Before(end)
}

// Learned returns the limits that the adaptive mode learned for a tool. It returns nil if the mode is disabled or
// ignores the tool.
func (l *Limits) Learned(e *registry.Entry) *telemetry.Adaptive {
	if l.Adaptive == nil || e.Timeout < 0 {
		return nil
	}
	name := e.FullName()
	return l.Adaptive.Report(name, l.Metrics.Tool(name), l.configured(e))
}
