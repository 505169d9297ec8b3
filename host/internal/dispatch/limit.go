package dispatch

import (
	"context"
	"errors"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
)

// limit waits until the host, the tool and the adaptive mode permit another concurrent call. A child call does not wait,
// because it uses the slots of its parent. For the tools "job" and "ask_user", only the limits of these tools apply.
func (d *Dispatcher) limit() Stage {
	if d.Gates == nil && d.Adaptive == nil {
		return Stage{}
	}
	return Stage{Name: "limit", Wrap: func(next Handler) Handler {
		if d.Adaptive != nil {
			next = d.limitAdaptively(next)
		}
		if d.Gates != nil {
			next = d.limitConfigured(next)
		}
		return next
	}}
}

// arrive adds a call to the queue of its tool, so that a full queue refuses the call immediately. For a tool with a
// fallback, arrive does nothing. In this case, the call is refused only when it is its turn, because the fallback runs
// in the same turn.
func (d *Dispatcher) arrive(c *Call) error {
	e := c.Identity.Tool
	if d.Gates == nil || e == nil || e.Limits.MaxConcurrent == 0 || e.Limits.Queue == 0 || e.Limits.Fallback != "" {
		return nil
	}
	arrival, err := d.Gates.Arrive(e.FullName(), scheduler.Limits{Max: e.Limits.MaxConcurrent, Queue: e.Limits.Queue})
	if full := (*scheduler.FullError)(nil); errors.As(err, &full) {
		return busy(e, full)
	}
	c.Arrival = arrival
	c.Hold(arrival.Leave)
	return nil
}

// busy returns the error for a call that a full queue refuses.
func busy(e *registry.Entry, full *scheduler.FullError) error {
	return tool.Errorf(tool.Unavailable, "Tool %[1]s is busy: %[2]d calls are running and %[3]d are queued, the configured maximum. Call the tool again later, or raise the maximum in the configuration: tool %[1]q { max_concurrent, queue }.",
		e.FullName(), e.Limits.MaxConcurrent, full.Waiting)
}

// limitConfigured enforces the limits in the configuration.
func (d *Dispatcher) limitConfigured(next Handler) Handler {
	return func(ctx context.Context, c *Call) *tool.Result {
		l := c.Identity.Tool.Limits
		if c.Identity.Depth > 0 || l.MaxConcurrent == 0 && d.MaxCalls == 0 {
			return next(ctx, c)
		}
		name, waits := c.Identity.Tool.FullName(), func() { c.Outcome.Waited = true }
		limited, cancel := context.WithTimeout(ctx, d.maxWait())
		defer cancel() // cancel only frees resources, because later stages do not use this context
		leaveTool, err := d.Gates.Enter(limited, name, scheduler.Limits{Max: l.MaxConcurrent, Queue: l.Queue, Waits: waits, Arrived: c.Arrival}, 0)
		if full := (*scheduler.FullError)(nil); errors.As(err, &full) {
			err = busy(c.Identity.Tool, full)
		}
		if err != nil {
			return d.noRoom(ctx, c, err)
		}
		if !claim.Controls(c.Identity.Tool) {
			leaveHost, err := d.Gates.Enter(limited, "", scheduler.Limits{Max: d.MaxCalls, Waits: waits}, l.Priority)
			if err != nil {
				leaveTool()
				return d.noRoom(ctx, c, err)
			}
			c.Hold(leaveHost)
		}
		c.Hold(leaveTool)
		return next(ctx, c)
	}
}

// limitAdaptively enforces the limit that the adaptive mode learned from earlier calls. It skips child calls and tools
// whose calls run one at a time. It also skips tools that control their own timeout, because the durations of their
// calls vary too much.
func (d *Dispatcher) limitAdaptively(next Handler) Handler {
	return func(ctx context.Context, c *Call) *tool.Result {
		e := c.Identity.Tool
		if c.Identity.Depth > 0 || e.Timeout < 0 || !e.Definition.Traits.ConcurrencySafe || claim.Controls(e) {
			return next(ctx, c)
		}
		limited, cancel := context.WithTimeout(ctx, d.maxWait())
		leave, err := d.Adaptive.Limits.Enter(limited, e.FullName(), e.Limits.MaxConcurrent, func() { c.Outcome.Waited = true })
		cancel()
		if err != nil {
			return d.noRoom(ctx, c, err)
		}
		learn := false // true after a successful call
		defer func() { leave(learn) }()
		res := next(ctx, c)
		learn = res.Success() && !res.Run.CacheHit
		return res
	}
}

// noRoom returns the result of a call that could not start because of a limit.
func (d *Dispatcher) noRoom(ctx context.Context, c *Call, err error) *tool.Result {
	c.Outcome.Full = true
	return d.notStarted(ctx, c, err, "room beside other calls")
}
