package stage

import (
	"context"
	"time"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

// These are the default limits for retries of a tool.
const (
	maxAttempts = 5
	retryDelay  = 50 * time.Millisecond
)

// Retry repeats a failed call if the tool is read-only or idempotent.
//
// After the first crash of its plugin, retry repeats the call without delay, because most crashes are random. After two
// crashes with the same arguments, the supervisor refuses these arguments, and the retries end. More retries are
// possible only if another process kills the plugin.
//
// Retry repeats an error of the tool itself only if the tool is unavailable and specifies a retry time. It never
// repeats the call before this time. The configured delay is a minimum. It doubles with each further retry. If the
// timeout does not allow the wait, the call is not repeated.
func Retry() Stage {
	return Stage{Name: "retry", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
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
					return last // the host now refuses the call, so return the earlier error
				}
				res.Run.Attempts = attempt
				if attempt >= attempts || ctx.Err() != nil || res.Error == nil || res.Error.Kind != tool.Unavailable ||
					res.Run.Plugin == "" {
					return res
				}
				last = res
				wait := max(res.Error.RetryAfter, delay<<min(attempt-1, 10))
				if res.Error.Source == tool.SourcePlugin { // the plugin crashed
					if attempt == 1 {
						continue
					}
					wait = delay << min(attempt-2, 10)
				} else if end, limited := ctx.Deadline(); res.Error.Source != tool.SourceTool ||
					res.Error.RetryAfter <= 0 || limited && time.Until(end) <= wait {
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
