package stage

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/telemetry"
)

// Measure counts the running calls and records a span for each call. It also records the waiting time and the running
// time of the call.
func Measure(tracer *telemetry.Tracer, m *telemetry.Metrics) Stage {
	return Stage{Name: "measure", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			e := c.Identity.Tool
			queued := time.Since(c.Identity.Started)
			c.Runs()
			e.Life.Begin()
			c.Hold(e.Life.End)
			c.Hold(m.Tool(c.MetricsName(e.FullName())).Begin())
			span := c.StartRun(tracer)
			res := next(ctx, c)
			call.EndRun(span, res)
			c.Outcome.Ran = true
			res.Run.QueueTime, res.Run.ExecutionTime = queued, time.Since(c.Identity.Started)-queued
			return res
		}
	}}
}
