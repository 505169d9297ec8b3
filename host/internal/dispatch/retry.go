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

// maxDeaths is the number of processes that one call can end. The second one runs only this call.
const maxDeaths = 2

// retry repeats a call if the tool is read-only or idempotent. After the death of its plugin, the call is repeated once and
// immediately, because most plugins die by accident. An error that the tool itself returned is its answer. It is retried
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
			for attempt := 1; ; attempt++ {
				res := next(ctx, c)
				res.Run.Attempts = attempt
				if attempt >= attempts || ctx.Err() != nil || res.Error == nil || res.Error.Kind != tool.Unavailable || res.Run.Plugin == "" {
					return res
				}
				if res.Error.Source == tool.SourcePlugin { // it died
					if attempt >= maxDeaths {
						return res
					}
					continue
				}
				wait := max(res.Error.RetryAfter, delay<<min(attempt-1, 10))
				end, limited := ctx.Deadline()
				if res.Error.Source != tool.SourceTool || res.Error.RetryAfter <= 0 || limited && time.Until(end) <= wait {
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
