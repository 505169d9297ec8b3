package dispatch

import (
	"context"
	"testing"
	"time"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/sdk/tool"
)

// TestRetries checks that a call of a read-only tool is repeated after the death of its plugin. If the error of a tool
// contains a retry time, the call is repeated as often as configured, but not before that time.
func TestRetries(t *testing.T) {
	died := tool.Errorf(tool.Unavailable, "it died").From(tool.SourcePlugin)
	told := tool.Errorf(tool.Unavailable, "429 Too Many Requests").From(tool.SourceTool).WithRetryAfter(20 * time.Millisecond)
	late := told.WithRetryAfter(time.Hour)
	for _, try := range []struct {
		tool     string
		err      *tool.Error
		attempts int
	}{{"look", died, 3}, {"change", died, 1}, {"look", told, 3}, {"change", told, 1}, {"look", late, 1}} {
		n := 0
		var last time.Time
		d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
			if early := try.err.RetryAfter - time.Since(last); n > 0 && early > 0 {
				t.Errorf("%s: attempt %d is %s too early", try.tool, n+1, early)
			}
			n++
			last = time.Now()
			res := tool.Failed(try.err)
			res.Run.Plugin = "p"
			return res
		})
		d.Registry.Lookup("", try.tool).Limits = registry.Limits{Attempts: 3, RetryDelay: time.Millisecond}
		if res := run(t, d, try.tool); res.Error == nil || n != try.attempts || res.Run.Attempts != n {
			t.Errorf("%s, %v: %d attempts, %+v", try.tool, try.err, n, res.Run)
		}
	}
}

// TestNoRetry checks that other errors of a tool and canceled calls are not repeated.
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
		res := stage.Retry().Wrap(func(context.Context, *Call) *tool.Result {
			n++
			out := try.res
			return &out
		})(try.ctx, prepared(t, d, "look"))
		if n != 1 || res.Run.Attempts != 1 {
			t.Errorf("%s: %d attempts, %+v", name, n, res.Run)
		}
	}
}
