package dispatch

import (
	"context"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/sdk/tool"
)

func TestTimeLimits(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
		<-ctx.Done()
		return tool.Failed(ctx.Err())
	})
	if e := run(t, d, "brief").Error; e == nil || e.Kind != tool.Timeout || !strings.Contains(e.Message, `brief took longer than 50ms and was stopped`) || !strings.Contains(e.Message, `tool "brief" { timeout`) {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := d.Begin(call.Request{Command: "change", Session: session("s")})
	cancel()
	if e := p.Run(ctx, client{}).Error; e == nil || e.Kind != tool.Canceled {
		t.Errorf("%+v", e)
	}
}

// TestTheTimeoutStartsWithTheTool checks which timeout applies, and that the timeout starts in the stage "timeout".
func TestTheTimeoutStartsWithTheTool(t *testing.T) {
	d := dispatcher(t, ok)
	d.Registry.Lookup("", "stat").Timeout = -1
	for name, limit := range map[string]time.Duration{"look": time.Minute, "brief": 50 * time.Millisecond, "stat": call.MaxTimeout} {
		c := prepared(t, d, name)
		c.Identity.Started = time.Now().Add(-time.Hour) // simulate a call that waited
		var inside context.Context
		d.timeout().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
			inside = ctx
			return new(tool.Result)
		})(t.Context(), c)
		if end, ok := inside.Deadline(); !ok || time.Until(end) > limit || time.Until(end) < limit-30*time.Second || c.Outcome.Limit != limit || inside.Err() == nil {
			t.Errorf("%s: until %s, limit %s, %v", name, end, c.Outcome.Limit, inside.Err())
		}
	}
}

func TestTheAdaptiveTimeout(t *testing.T) {
	d := dispatcher(t, ok)
	d.Adaptive, d.Metrics = new(adaptive.Learned), new(metrics.Metrics)
	d.Registry.Lookup("", "stat").Timeout = -1
	for name, limit := range map[string]time.Duration{"look": adaptive.LeastTimeout, "brief": 50 * time.Millisecond, "stat": call.MaxTimeout} {
		for range adaptive.Samples {
			d.Metrics.Tool(name).Ended(metrics.Call{Execution: time.Millisecond, Attempts: 1})
		}
		c := prepared(t, d, name)
		var until time.Duration
		d.timeout().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
			end, _ := ctx.Deadline()
			until = time.Until(end)
			return new(tool.Result)
		})(t.Context(), c)
		if c.Outcome.Limit != limit || until > limit {
			t.Errorf("%s: %s, limit %s, want %s", name, until, c.Outcome.Limit, limit)
		}
	}
	// The error must contain the limit that ended the call.
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for limit, text := range map[time.Duration]string{time.Minute: `look took longer than 1m0s and was stopped. Ask for less, or raise`, 5 * time.Second: `set adaptive = false`} {
		c := prepared(t, d, "look")
		c.Outcome.Limit = limit
		res := &tool.Result{Error: tool.Errorf(tool.Timeout, "x").From(tool.SourcePlugin)}
		d.describeEnd(t.Context(), ctx, c, res)
		must(t, res, tool.Timeout, text)
	}
	// A tool can also report its own timeout, for example of a slow server.
	c := prepared(t, d, "look")
	own := &tool.Result{Error: tool.Errorf(tool.Timeout, "the server is slow")}
	d.describeEnd(t.Context(), t.Context(), c, own)
	must(t, own, tool.Timeout, "the server is slow")
}

// lateTimer is a context with an expired deadline whose timer has not yet fired.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestEndOfAWaitingCall checks that the error of a call that never ran names the cause of its end.
func TestEndOfAWaitingCall(t *testing.T) {
	d := dispatcher(t, ok)
	for cause, text := range map[error]string{
		nil:        "look did not start, because its caller ended it while it waited for bash. Nothing was run.",
		ErrStopped: "look did not start, because the host was stopped while it waited for bash. Nothing was run. Call it again when a host runs.",
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		must(t, d.notStarted(ctx, prepared(t, d, "look"), ctx.Err(), "bash"), tool.Canceled, text)
		must(t, d.notStarted(ctx, prepared(t, d, "look"), ctx.Err(), ""), tool.Canceled, strings.Replace(text, "bash", "its turn", 1))
	}
}

// TestEachEndHasOneError checks that the error of an ended call depends only on the cause of the end.
func TestEachEndHasOneError(t *testing.T) {
	d := dispatcher(t, ok)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	ended, end := context.WithCancelCause(t.Context())
	end(ErrStopped)
	ended, stopEnded := context.WithTimeout(ended, time.Hour)
	defer stopEnded()
	for _, raw := range []*tool.Error{
		tool.Errorf(tool.Timeout, "stream terminated by RST_STREAM with error code: CANCEL"), tool.Errorf(tool.ExecutionFailed, "context deadline exceeded"),
		tool.Errorf(tool.Unavailable, "error reading from server: EOF"), tool.Errorf(tool.Canceled, "context canceled"),
	} {
		for _, end := range []struct {
			caller, limited context.Context
			kind            tool.Kind
			text            string
		}{
			{t.Context(), lateTimer{t.Context()}, tool.Timeout, "look took longer than 1m0s and was stopped"},
			{t.Context(), late, tool.Timeout, "look took longer than 1m0s and was stopped"},
			{gone, gone, tool.Canceled, "look was canceled by its caller"},
			{ended, ended, tool.Canceled, "look was stopped, because the host was stopped"},
			{late, late, tool.Timeout, "the caller's own deadline passed"},
		} {
			c := prepared(t, d, "look")
			c.Outcome.Limit = time.Minute
			res := &tool.Result{Error: raw.From(tool.SourcePlugin)}
			d.describeEnd(end.caller, end.limited, c, res)
			must(t, res, end.kind, end.text)
			if res.Error.Source != tool.SourceHost {
				t.Error(res.Error.Source)
			}
			whole := &tool.Result{Output: "done"}
			if d.describeEnd(end.caller, end.limited, c, whole); !whole.Success() {
				t.Errorf("a call that succeeded ended with %v", whole.Error)
			}
		}
	}
}
