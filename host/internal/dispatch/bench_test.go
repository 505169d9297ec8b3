package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

// BenchmarkEmptyCall shows what a call through all stages costs, if neither the plugin nor a hook does anything.
func BenchmarkEmptyCall(b *testing.B) {
	d := dispatcher(b, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{} })
	d.Gates, d.MaxCalls, d.Metrics, d.Adaptive, d.Commands = new(scheduler.Gates), 100, new(metrics.Metrics), new(Adaptive), new(granted)
	d.Hooks = hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{tool.HookAfter}, Tools: []string{"other"}}})
	req := Request{ID: "1", Name: "look", Session: session("s")}
	b.ReportAllocs()
	for b.Loop() {
		d.Begin(req).Run(b.Context(), front{})
	}
}
