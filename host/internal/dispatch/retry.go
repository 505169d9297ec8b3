package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"
)

// Defaults for the limits of a tool.
const (
	maxAttempts = 5
	retryDelay  = 50 * time.Millisecond
)

// retry repeats a call if the tool is read-only or idempotent. After the death of its plugin, the call is repeated
// immediately, because most plugins die by accident. The supervisor refuses arguments that ended two processes, which ends
// the retries; only a plugin that is killed from outside more often is tried again. An error that the tool itself returned is its answer. It is retried
// only if the tool is unavailable and names the time of the next try, and never sooner. The delay of the configuration
// doubles before each such retry and is a minimum. A wait that the timeout does not allow is not begun.
func (d *Dispatcher) retry() Stage {
	return Stage{Name: "retry", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			limits, traits := c.Identity.Tool.Limits, c.Identity.Tool.Definition.Traits
			attempts, delay := limits.Attempts, limits.RetryDelay
			if attempts == 0 {
				attempts = maxAttempts
			}
			if delay == 0 {
				delay = retryDelay
			}
			if !traits.ReadOnly && !traits.Idempotent {
				attempts = 1
			}
			var last *tool.Result
			for attempt := 1; ; attempt++ {
				res := next(ctx, c)
				if last != nil && res.Error != nil && res.Run.Plugin == "" && res.Error.Source == tool.SourceHost {
					return last // the arguments are refused now
				}
				res.Run.Attempts = attempt
				if attempt >= attempts || ctx.Err() != nil || res.Error == nil || res.Error.Kind != tool.Unavailable || res.Run.Plugin == "" {
					return res
				}
				last = res
				wait := max(res.Error.RetryAfter, delay<<min(attempt-1, 10))
				if res.Error.Source == tool.SourcePlugin { // it died
					if attempt == 1 {
						continue
					}
					wait = delay << min(attempt-2, 10)
				} else if end, limited := ctx.Deadline(); res.Error.Source != tool.SourceTool || res.Error.RetryAfter <= 0 || limited && time.Until(end) <= wait {
					return res
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return res
				}
			}
		}
	}}
}
