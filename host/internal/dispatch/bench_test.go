package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/sdk/tool"
)

// BenchmarkEmptyCall measures the cost of a call through all stages. The plugin and the hooks do nothing.
func BenchmarkEmptyCall(b *testing.B) {
	d := allOn(dispatcher(b, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{} }))
	d.Metrics, d.MaxCalls = new(metrics.Metrics), 100
	req := call.Request{ID: "1", Name: "look", Session: session("s")}
	b.ReportAllocs()
	for b.Loop() {
		d.Begin(req).Run(b.Context(), client{})
	}
}
