package dispatch

import (
	"context"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

func TestTimeLimits(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, c *tool.Call, _ tool.Peer) *tool.Result {
		end, limited := ctx.Deadline()
		if c.Tool == "brief" && (!limited || time.Until(end) > 50*time.Millisecond) || c.Tool == "change" && ctx.Err() == nil {
			return tool.Failed(tool.Errorf(tool.Internal, "the call does not end: its deadline is %s", end)) // waiting would only end with the test
		}
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
		d.Limits.Timeouts().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
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
	d.Limits.Adaptive, d.Limits.Metrics = new(adaptive.Learned), new(telemetry.Metrics)
	d.Registry.Lookup("", "stat").Timeout = -1
	for name, limit := range map[string]time.Duration{"look": adaptive.LeastTimeout, "brief": 50 * time.Millisecond, "stat": call.MaxTimeout} {
		for range adaptive.Samples {
			d.Limits.Metrics.Tool(name).Ended(telemetry.Call{Execution: time.Millisecond, Attempts: 1})
		}
		c := prepared(t, d, name)
		var until time.Duration
		d.Limits.Timeouts().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
			end, _ := ctx.Deadline()
			until = time.Until(end)
			return new(tool.Result)
		})(t.Context(), c)
		if c.Outcome.Limit != limit || until > limit {
			t.Errorf("%s: %s, limit %s, want %s", name, until, c.Outcome.Limit, limit)
		}
	}
}

// TestEndOfAWaitingCall checks that the error of a call that never ran names the cause of its end.
func TestEndOfAWaitingCall(t *testing.T) {
	d := dispatcher(t, ok)
	for cause, text := range map[error]string{
		nil:              "look did not start, because its caller ended it while it waited for bash. Nothing was run.",
		stage.ErrStopped: "look did not start, because the host was stopped while it waited for bash. Nothing was run. Call it again when a host runs.",
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		must(t, d.Limits.NotStarted(ctx, prepared(t, d, "look"), ctx.Err(), "bash"), tool.Canceled, text)
		must(t, d.Limits.NotStarted(ctx, prepared(t, d, "look"), ctx.Err(), ""), tool.Canceled, strings.Replace(text, "bash", "its turn", 1))
	}
}
