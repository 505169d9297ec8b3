package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"
)

// measure counts the call as running, and records its span and how long it queued and ran.
func (d *Dispatcher) measure() Stage {
	return Stage{Name: "measure", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			e := c.Identity.Tool
			queued := time.Since(c.Identity.Started)
			e.Life.Begin()
			c.hold(e.Life.End)
			c.hold(d.Metrics.Tool(e.FullName()).Begin())
			span := c.startRun(d.Tracer)
			res := next(ctx, c)
			endRun(span, res)
			c.Outcome.Ran = true
			res.Run.QueueTime, res.Run.ExecutionTime = queued, time.Since(c.Identity.Started)-queued
			return res
		}
	}}
}
