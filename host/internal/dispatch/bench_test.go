package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

// BenchmarkEmptyCall measures the cost of a call through all stages. The plugin and the hooks do nothing.
func BenchmarkEmptyCall(b *testing.B) {
	r := dispatcher(b, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{} })
	r.Limits.Metrics, r.Limits.MaxCalls, r.Limits.Gates, r.Limits.Adaptive = new(telemetry.Metrics), 100, new(scheduler.Gates), new(adaptive.Learned)
	r.Commands, r.Results, r.Hooks = new(granted), stored{}, hookOn(tool.HookAfter, nil, "other")
	d := r.dispatcher()
	req := call.Request{ID: "1", Name: "look", Session: session("s")}
	b.ReportAllocs()
	for b.Loop() {
		d.Begin(req, r.Turns.Scheduler.Enqueue("s")).Run(b.Context(), client{})
	}
}
