package dispatch

import (
	"context"
	"testing"
	"time"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

func TestARunningCallIsCountedUntilItIsReleased(t *testing.T) {
	d := dispatcher(t, ok)
	d.Limits.Metrics = new(telemetry.Metrics)
	new(registry.Lives).Publish(d.Registry, func(string) bool { return false })
	c := prepared(t, d, "look")
	c.Identity.Started = time.Now().Add(-time.Minute)
	running := func(want int) {
		t.Helper()
		if s, n := c.Identity.Tool.Life.State(), d.Limits.Metrics.Tools()[0].Running; n != want || (s == registry.Executing) != (want == 1) {
			t.Errorf("%d calls run and the tool is %s, want %d", n, s, want)
		}
	}
	res := stage.Measure(d.Tracer, d.Limits.Metrics).Wrap(func(context.Context, *Call) *tool.Result {
		running(1)
		time.Sleep(time.Millisecond)
		return new(tool.Result)
	})(t.Context(), c)
	if r := res.Run; r.QueueTime < time.Minute || r.ExecutionTime < time.Millisecond || r.ExecutionTime > time.Minute || !c.Outcome.Ran {
		t.Errorf("%+v %+v", r, c.Outcome)
	}
	running(1) // the call still counts before hooks and a fallback run
	c.Release()
	running(0)
}
