package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/sdk/tool"
)

// BenchmarkEmptyCall shows what a call through all stages costs, if neither the plugin nor a hook does anything.
func BenchmarkEmptyCall(b *testing.B) {
	d := allOn(dispatcher(b, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{} }))
	d.Metrics, d.MaxCalls = new(metrics.Metrics), 100
	req := call.Request{ID: "1", Name: "look", Session: session("s")}
	b.ReportAllocs()
	for b.Loop() {
		d.Begin(req).Run(b.Context(), client{})
	}
}
