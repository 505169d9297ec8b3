package dispatch

import (
	"context"
	"testing"
	"time"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

// TestRetries checks that a call is repeated after the death of its plugin only if the tool is read-only.
func TestRetries(t *testing.T) {
	for name, attempts := range map[string]int{"look": 5, "change": 1} {
		n := 0
		d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
			n++
			res := tool.Failed(tool.Errorf(tool.Unavailable, "it died").From(tool.SourcePlugin))
			res.Run.Plugin = "p"
			return res
		})
		if name == "look" {
			d.Registry.Lookup("", name).Limits = registry.Limits{Attempts: 7, RetryDelay: time.Millisecond}
			if res := run(t, d, name); n != 7 || res.Run.Attempts != 7 {
				t.Errorf("%d attempts of 7", n)
			}
			d.Registry.Lookup("", name).Limits, n = registry.Limits{}, 0
		}
		if res := run(t, d, name); res.Error == nil || n != attempts || res.Run.Attempts != attempts {
			t.Errorf("%s: %d attempts, %+v", name, n, res.Run)
		}
	}
}

// TestNoRetry checks that failures of the tool itself and canceled calls are not repeated.
func TestNoRetry(t *testing.T) {
	d := dispatcher(t, ok)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, try := range map[string]struct {
		ctx context.Context
		res tool.Result
	}{
		"its answer":  {t.Context(), tool.Result{Error: tool.Errorf(tool.Unavailable, "429 Too Many Requests").From(tool.SourceTool), Run: tool.Run{Plugin: "p"}}},
		"canceled":    {gone, tool.Result{Error: tool.Errorf(tool.Unavailable, "it died").From(tool.SourcePlugin), Run: tool.Run{Plugin: "p"}}},
		"not started": {t.Context(), tool.Result{Error: tool.Errorf(tool.Unavailable, "it is suspended")}},
		"failure":     {t.Context(), tool.Result{Error: tool.Errorf(tool.NotFound, "no file"), Run: tool.Run{Plugin: "p"}}},
	} {
		n := 0
		res := d.retry().Wrap(func(context.Context, *Call) *tool.Result {
			n++
			out := try.res
			return &out
		})(try.ctx, prepared(t, d, "look"))
		if n != 1 || res.Run.Attempts != 1 {
			t.Errorf("%s: %d attempts, %+v", name, n, res.Run)
		}
	}
}
