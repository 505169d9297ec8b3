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

// retry repeats a call after the death of its plugin if the tool is read-only or idempotent. The first retry starts
// immediately, because most plugins die by accident. The delay doubles before each further retry. An error that the tool
// itself returned is its answer and is never retried, whatever its kind.
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
				died := res.Error != nil && res.Error.Kind == tool.Unavailable && res.Error.Source == tool.SourcePlugin && res.Run.Plugin != ""
				if !died || attempt >= attempts || ctx.Err() != nil {
					return res
				}
				if attempt == 1 {
					continue
				}
				select {
				case <-time.After(delay << min(attempt-2, 10)):
				case <-ctx.Done():
					return res
				}
			}
		}
	}}
}
