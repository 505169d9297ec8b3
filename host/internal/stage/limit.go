package stage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/telemetry"
)

// DefaultMaxWait limits the time that a call waits for other calls.
const DefaultMaxWait = 2 * time.Minute

// Limits are the limits of a configuration. Its fields must not change after the first call.
type Limits struct {
	// Gates limits the number of concurrent calls in all sessions. MaxCalls limits the total number of calls; 0 means
	// no limit. The registry entry of a tool limits the calls of that tool. A nil Gates disables all limits.
	Gates    *scheduler.Gates
	MaxCalls int
	// Adaptive learns limits from calls and caches results. A nil Adaptive disables both.
	Adaptive *adaptive.Learned
	// Metrics has the durations of earlier calls. A nil Metrics disables the statistics.
	Metrics *telemetry.Metrics
	// Timeout is the timeout for calls of tools without a configured timeout.
	Timeout time.Duration
	// MaxWait limits how long a call waits for other calls. Zero means [DefaultMaxWait].
	MaxWait time.Duration
}

// Wait returns how long a call waits for other calls at most.
func (l *Limits) Wait() time.Duration { return cmp.Or(max(l.MaxWait, 0), DefaultMaxWait) }

// NotStarted returns the result of a call that ended while it waited. The argument "err" is the reason for the end. The
// argument "waitedFor" is empty if the call ended before it had to wait for anything.
func (l *Limits) NotStarted(ctx context.Context, c *call.Call, err error, waitedFor string) *tool.Result {
	waitedFor = cmp.Or(waitedFor, "its turn")
	switch {
	case ctx.Err() != nil:
		err = CanceledBefore(ctx, c, waitedFor)
	case errors.Is(err, context.DeadlineExceeded):
		err = tool.Errorf(tool.Timeout, "%s did not start, because it waited longer than %s for %s. Nothing was run. Try again later, or raise the limit in the configuration: host { max_wait = \"…\" }.",
			c.Name(), l.Wait(), waitedFor)
	}
	res := call.Refused(err)
	res.Run.QueueTime = time.Since(c.Identity.Started)
	return res
}

// Stage waits until the host, the tool and the adaptive mode permit another concurrent call. A child call does not
// wait, because it uses the slots of its parent. For the tools that [claim.Controls] names, only the limits of these
// tools apply.
func (l *Limits) Stage() Stage {
	if l.Gates == nil && l.Adaptive == nil {
		return Stage{}
	}
	return Stage{Name: "limit", Wrap: func(next Handler) Handler {
		if l.Adaptive != nil {
			next = l.limitAdaptively(next)
		}
		if l.Gates != nil {
			next = l.limitConfigured(next)
		}
		return next
	}}
}

// Arrive adds a call to the queue of its tool, so that a full queue refuses the call immediately. For a tool with a
// fallback, Arrive does nothing. In this case, the call is refused only when it is its turn, because the fallback runs
// in the same turn.
func (l *Limits) Arrive(c *call.Call) error {
	e := c.Identity.Tool
	if l.Gates == nil || e == nil || e.Limits.MaxConcurrent == 0 || e.Limits.Queue == 0 || e.Limits.Fallback != "" {
		return nil
	}
	arrival, err := l.Gates.Arrive(e.FullName(), scheduler.Limits{Max: e.Limits.MaxConcurrent, Queue: e.Limits.Queue})
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
func (l *Limits) limitConfigured(next Handler) Handler {
	return func(ctx context.Context, c *call.Call) *tool.Result {
		of := c.Identity.Tool.Limits
		if c.Identity.Depth > 0 || of.MaxConcurrent == 0 && l.MaxCalls == 0 {
			return next(ctx, c)
		}
		name, waits := c.Identity.Tool.FullName(), func() { c.Outcome.Waited = true }
		limited, cancel := context.WithTimeout(ctx, l.Wait())
		defer cancel() // cancel only frees resources, because later stages do not use this context
		leaveTool, err := l.Gates.Enter(limited, name,
			scheduler.Limits{Max: of.MaxConcurrent, Queue: of.Queue, Waits: waits, Arrived: c.Arrival}, 0)
		if full := (*scheduler.FullError)(nil); errors.As(err, &full) {
			err = busy(c.Identity.Tool, full)
		}
		if err != nil {
			return l.noRoom(ctx, c, err)
		}
		if !claim.Controls(c.Identity.Tool) {
			leaveHost, err := l.Gates.Enter(limited, "", scheduler.Limits{Max: l.MaxCalls, Waits: waits}, of.Priority)
			if err != nil {
				leaveTool()
				return l.noRoom(ctx, c, err)
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
func (l *Limits) limitAdaptively(next Handler) Handler {
	return func(ctx context.Context, c *call.Call) *tool.Result {
		e := c.Identity.Tool
		if c.Identity.Depth > 0 || e.Timeout < 0 || !e.Definition.Traits.ConcurrencySafe || claim.Controls(e) {
			return next(ctx, c)
		}
		limited, cancel := context.WithTimeout(ctx, l.Wait())
		leave, err := l.Adaptive.Limits.Enter(limited, e.FullName(), e.Limits.MaxConcurrent, func() {
			c.Outcome.Waited = true
		})
		cancel()
		if err != nil {
			return l.noRoom(ctx, c, err)
		}
		learn := false // true after a successful call
		defer func() { leave(learn) }()
		res := next(ctx, c)
		learn = res.Success() && !res.Run.CacheHit
		return res
	}
}

// noRoom returns the result of a call that could not start because of a limit.
func (l *Limits) noRoom(ctx context.Context, c *call.Call, err error) *tool.Result {
	c.Outcome.Full = true
	return l.NotStarted(ctx, c, err, "room beside other calls")
}
