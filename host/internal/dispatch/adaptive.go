package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/resultcache"
)

// Adaptive is what is learnt of calls. The zero value is ready.
type Adaptive struct {
	Limits  adaptive.Limits
	Results resultcache.Cache
}

// A result is kept that took at least slow, of a tool that was called often.
const (
	slow  = 10 * time.Millisecond
	often = 3
)

func adaptedTimeout(t *metrics.Tool, given time.Duration) time.Duration {
	count, p95, average := t.Taken()
	return adaptive.Timeout(count, p95, average, given)
}

// adapt waits as admit does, and for the limit that is set by how calls went. That is for tools
// whose calls are alike and may run beside each other: not for those that keep their own time.
// leave takes the result, and may be called again.
func (p *Pending) adapt(ctx context.Context) (leave func(*tool.Result), err error) {
	admitted, err := p.admit(ctx)
	if err != nil {
		return nil, err
	}
	a, e := p.d.Adaptive, p.entry
	if a == nil || p.nesting > 0 || e.Timeout < 0 || !e.Definition.Traits.ConcurrencySafe {
		return func(res *tool.Result) {
			if res == nil {
				admitted()
			}
		}, nil
	}
	done, err := a.Limits.Enter(ctx, e.FullName(), e.Limits.MaxConcurrent, func() { p.waited = true })
	if err != nil {
		admitted()
		return nil, err
	}
	told := false
	return func(res *tool.Result) {
		switch {
		case res == nil && !told: // it did not come to run
			done(false)
		case res != nil:
			told = true
			done(res.Success() && !res.Run.CacheHit)
		}
		if res == nil {
			admitted()
		}
	}, nil
}

// answer has the plugin answer the call, or gives the answer that it gave before where that is as good.
func (p *Pending) answer(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	key, ok := p.cacheKey(call)
	if !ok {
		return p.attempt(ctx, call, peer)
	}
	results := &p.d.Adaptive.Results
	if res := results.Get(key, Session{Roots: call.Roots}.Contains); res != nil {
		run := res.Run
		res.Run = tool.Run{Plugin: run.Plugin, PluginVersion: run.PluginVersion, CacheHit: true}
		return res
	}
	began := time.Now()
	res := p.attempt(ctx, call, peer)
	took := time.Since(began)
	// Where a link leads may have changed meanwhile.
	if again, ok := p.cacheKey(call); ok && again == key && took >= slow {
		if count, _, _ := p.d.Metrics.Tool(p.entry.FullName()).Taken(); count+1 >= often {
			results.Put(key, res)
		}
	}
	return res
}

// cacheKey is what the answer to a call depends on beside the contents of files; ok is false when
// more than that may count.
func (p *Pending) cacheKey(call *tool.Call) (key resultcache.Key, ok bool) {
	traits := p.entry.Definition.Traits
	if p.d.Adaptive == nil || !traits.Cacheable || !traits.ReadOnly || call.Commands != nil {
		return key, false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", p.entry.FullName(), call.Cwd, call.Arguments)
	for _, r := range call.Roots {
		fmt.Fprintf(&b, " %q %t", r.Path, r.Writable)
	}
	for _, param := range p.entry.Schema().Params() {
		raw, given := p.args[param.Name]
		if param.Path == "" || !given {
			continue
		}
		if param.Path == "diff" {
			return key, false
		}
		var paths []string
		if one := ""; json.Unmarshal(raw, &one) == nil {
			paths = []string{one}
		} else if json.Unmarshal(raw, &paths) != nil {
			return key, false
		}
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				path = filepath.Join(call.Cwd, path)
			}
			target, err := filepath.EvalSymlinks(path)
			if err != nil {
				return key, false
			}
			fmt.Fprintf(&b, " %q", target)
		}
	}
	return resultcache.Key{Plugin: p.place.Version(), Call: b.String()}, true
}

// Adapted is what the adaptive mode has come to for a tool; nil: nothing.
func (d *Dispatcher) Adapted(name string) *metrics.Adaptive {
	if d.Adaptive == nil {
		return nil
	}
	e := d.Registry.Find(name)
	if e == nil || e.Timeout < 0 {
		return nil
	}
	given := d.configured(e)
	out := &metrics.Adaptive{Timeout: milliseconds(adaptedTimeout(d.Metrics.Tool(name), given)), TimeoutMost: milliseconds(given)}
	if st := d.Adaptive.Limits.State(name); st != nil {
		out.Limit, out.LimitMost, out.Raised, out.Lowered = st.Limit, st.Most, st.Raised, st.Lowered
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
