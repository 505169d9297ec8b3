package dispatch

import (
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/resultcache"
)

// Adaptive is what the host learns from calls. The zero value is ready to use.
type Adaptive struct {
	Limits  adaptive.Limits
	Results resultcache.Cache
}

// adaptedTimeout returns the timeout that the calls of a tool need, at most the given one.
func adaptedTimeout(t *metrics.Tool, given time.Duration) time.Duration {
	count, p95, average := t.Taken()
	return adaptive.Timeout(count, p95, average, given)
}

// Adapted returns the limits that the adaptive mode set for a tool. It returns nil if the mode is off or
// leaves the tool out.
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
