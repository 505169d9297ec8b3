package dispatch

import (
	"context"
	"testing"
	"time"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

func TestDeadlineIsTheConfiguredTimeout(t *testing.T) {
	d := dispatcher(t, ok)
	d.Registry.Lookup("", "stat").Timeout = -1
	for name, limit := range map[string]time.Duration{"look": time.Minute, "brief": 50 * time.Millisecond, "stat": call.MaxTimeout} {
		c := prepared(t, d, name)
		var inside context.Context
		d.deadline().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
			inside = ctx
			return new(tool.Result)
		})(t.Context(), c)
		if end, ok := inside.Deadline(); !ok || time.Until(end) > limit || time.Until(end) < limit-30*time.Second || c.Outcome.Limit != limit || inside.Err() == nil {
			t.Errorf("%s: until %s, limit %s, %v", name, end, c.Outcome.Limit, inside.Err())
		}
	}
}
