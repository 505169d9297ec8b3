package stage

import (
	"context"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

// The host caches a result if the call took at least the time SlowCall, and the tool was called at least as often as
// the constant OftenCalled.
const (
	SlowCall    = 10 * time.Millisecond
	OftenCalled = 3
)

// Cache returns the result of an earlier, equal call. The tool must be cacheable, and the input files of the earlier
// call must be unchanged.
func Cache(a *adaptive.Learned, m *telemetry.Metrics) Stage {
	if a == nil {
		return Stage{}
	}
	results := &a.Results
	return Stage{Name: "cache", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			key, ok := c.CacheKey()
			if !ok {
				return next(ctx, c)
			}
			if res := results.Get(key, c.Request.Session.Contains); res != nil {
				res.Run = tool.Run{Plugin: res.Run.Plugin, PluginVersion: res.Run.PluginVersion, CacheHit: true}
				return res
			}
			began := time.Now()
			res := next(ctx, c)
			took := time.Since(began)
			// Compute the key again and compare it, because the call can have changed the target of a symbolic link.
			if again, ok := c.CacheKey(); ok && again == key && took >= SlowCall {
				if count, _, _ := m.Tool(c.Identity.Tool.FullName()).Taken(); count+1 >= OftenCalled {
					results.Put(key, res)
				}
			}
			return res
		}
	}}
}
