package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/resultcache"
)

// A result is cached if its call took at least slow, and the tool was called at least often times.
const (
	slow  = 10 * time.Millisecond
	often = 3
)

// cache returns an earlier result of a cacheable tool if the files that it was made of did not change.
func (d *Dispatcher) cache() Stage {
	if d.Adaptive == nil {
		return Stage{}
	}
	results := &d.Adaptive.Results
	return Stage{Name: "cache", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			key, ok := cacheKey(c)
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
			// A link may lead elsewhere by now.
			if again, ok := cacheKey(c); ok && again == key && took >= slow {
				if count, _, _ := d.Metrics.Tool(c.Identity.Tool.FullName()).Taken(); count+1 >= often {
					results.Put(key, res)
				}
			}
			return res
		}
	}}
}

// cacheKey returns all that the result of a call depends on, except the contents of files. ok is false if it
// may depend on more.
func cacheKey(c *Call) (key resultcache.Key, ok bool) {
	sent, traits := c.Decision.Sent, c.Identity.Tool.Definition.Traits
	if !traits.Cacheable || !traits.ReadOnly || sent.Commands != nil {
		return key, false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", c.Identity.Tool.FullName(), sent.Cwd, sent.Arguments)
	for _, r := range sent.Roots {
		fmt.Fprintf(&b, " %q %t", r.Path, r.Writable)
	}
	for _, param := range c.Identity.Tool.Schema().Params() {
		raw, given := c.Decision.Arguments[param.Name]
		if param.Path == "" || !given {
			continue
		}
		if param.Path == "diff" || !addTargets(&b, raw, sent.Cwd) {
			return key, false
		}
	}
	return resultcache.Key{Plugin: c.Identity.Lease.Version(), Call: b.String()}, true
}

// addTargets adds to a key the files that an argument names, with links resolved. It reports whether all of
// them exist.
func addTargets(b *strings.Builder, raw json.RawMessage, cwd string) bool {
	var paths []string
	if one := ""; json.Unmarshal(raw, &one) == nil {
		paths = []string{one}
	} else if json.Unmarshal(raw, &paths) != nil {
		return false
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return false
		}
		fmt.Fprintf(b, " %q", target)
	}
	return true
}
