package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"
)

// The host caches a result if the call took at least the time slow, and the tool was called at least as often as the
// constant often.
const (
	slow  = 10 * time.Millisecond
	often = 3
)

// cache returns the result of an earlier, equal call. The tool must be cacheable, and the input files of the earlier
// call must be unchanged.
func (d *Dispatcher) cache() Stage {
	if d.Adaptive == nil {
		return Stage{}
	}
	results := &d.Adaptive.Results
	return Stage{Name: "cache", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
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
			// Compute the key again, because the call can change the target of a symbolic link.
			if again, ok := c.CacheKey(); ok && again == key && took >= slow {
				if count, _, _ := d.Metrics.Tool(c.Identity.Tool.FullName()).Taken(); count+1 >= often {
					results.Put(key, res)
				}
			}
			return res
		}
	}}
}
