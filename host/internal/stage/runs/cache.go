package runs

import (
	"context"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/sdk/tool"
)

// The host caches a result if the call took at least the time Slow, and the tool was called at least as often as the
// constant Often.
const (
	Slow  = 10 * time.Millisecond
	Often = 3
)

// Cache returns the result of an earlier, equal call. The tool must be cacheable, and the input files of the earlier
// call must be unchanged.
func Cache(a *adaptive.Learned, m *metrics.Metrics) stage.Stage {
	if a == nil {
		return stage.Stage{}
	}
	results := &a.Results
	return stage.Stage{Name: "cache", Wrap: func(next stage.Handler) stage.Handler {
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
			if again, ok := c.CacheKey(); ok && again == key && took >= Slow {
				if count, _, _ := m.Tool(c.Identity.Tool.FullName()).Taken(); count+1 >= Often {
					results.Put(key, res)
				}
			}
			return res
		}
	}}
}
