package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/sdk/tool"
)

func TestCachedResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		n++
		time.Sleep(slow)
		return &tool.Result{Output: "ok", Run: tool.Run{Plugin: "p", PluginVersion: "1"}}
	})
	d.Metrics, d.Adaptive = new(metrics.Metrics), new(Adaptive)
	var last *tool.Result
	for range often + 2 {
		last = run(t, d, "stat --text x")
	}
	if n != often || !last.Run.CacheHit || last.Run.Attempts != 0 || last.Run.Plugin != "p" || last.Output != "ok" {
		t.Errorf("%d calls, %+v", n, last)
	}
	if a := d.Adapted("stat"); a == nil || a.Limit == 0 {
		t.Errorf("%+v", a)
	}
}
