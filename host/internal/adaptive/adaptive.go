// Package adaptive learns the limits of tools from their calls, and keeps results of calls until their input files
// change.
//
// [Timeout] computes a timeout, and [Limits.Enter] limits the number of concurrent calls of a tool. [Results.Get]
// returns an earlier result.
package adaptive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"toolhost.dev/host/internal/telemetry"
)

const (
	// LeastTimeout is the shortest timeout.
	LeastTimeout = 5 * time.Second
	// Samples is the number of calls that are required to compute a timeout.
	Samples = 20
	// most is the highest possible limit for a tool without the setting "max_concurrent". The constant
	// "usual" is the initial limit of such a tool.
	most, usual = 64, 20
)

// Timeout returns the timeout for a call of a tool: max(1.5·p95, 3·average, [LeastTimeout]), but at most the given
// timeout.
func Timeout(count uint64, p95, average, given time.Duration) time.Duration {
	if count < Samples {
		return given
	}
	return min(given, max(p95+p95/2, 3*average, LeastTimeout))
}

// ToolTimeout returns a timeout that is long enough for most calls of a tool. It is never longer than the given
// timeout.
func ToolTimeout(t *telemetry.Tool, given time.Duration) time.Duration {
	count, p95, average := t.Taken()
	return Timeout(count, p95, average, given)
}

// Learned holds the limits and results that the host learned from earlier calls. The zero value is ready to use.
type Learned struct {
	Limits  Limits
	Results Results
}

// Report returns the current limits of a tool with the given timeout.
func (l *Learned) Report(name string, t *telemetry.Tool, given time.Duration) *telemetry.Adaptive {
	out := &telemetry.Adaptive{Timeout: milliseconds(ToolTimeout(t, given)), TimeoutMost: milliseconds(given)}
	if st := l.Limits.State(name); st != nil {
		out.Limit, out.LimitMost, out.Raised, out.Lowered = st.Limit, st.Most, st.Raised, st.Lowered
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Limits holds the concurrency limits of all tools. The zero value is ready to use. A nil Limits disables the limits.
// Limits is safe for concurrent use.
type Limits struct {
	mu sync.Mutex
	by map[string]*limit
}

// limit is the limit of one tool.
type limit struct {
	limiter         adaptivelimiter.AdaptiveLimiter[any]
	ceiling         int
	raised, lowered atomic.Uint64
}

// limitOf returns the limit of a tool. If the ceiling changed, it creates a new limit.
func (l *Limits) limitOf(tool string, ceiling int) *limit {
	if ceiling <= 0 {
		ceiling = most
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[tool]
	if one != nil && one.ceiling == ceiling {
		return one
	}
	one = &limit{ceiling: ceiling}
	one.limiter = adaptivelimiter.NewBuilder[any]().WithLimits(1, uint(ceiling), uint(min(usual, ceiling))).
		OnLimitChanged(func(e adaptivelimiter.LimitChangedEvent) {
			switch {
			case e.NewLimit > e.OldLimit:
				one.raised.Add(1)
			case e.NewLimit < e.OldLimit:
				one.lowered.Add(1)
			}
		}).Build()
	if l.by == nil {
		l.by = make(map[string]*limit)
	}
	l.by[tool] = one
	return one
}

// Enter waits until a call of a tool can run. The limit never exceeds ceiling; 0 means the default ceiling. Before
// Enter blocks, it calls the function "waits". The caller must call leave once at the end of the call. The limit learns
// only from the durations of successful calls.
func (l *Limits) Enter(ctx context.Context, tool string, ceiling int,
	waits func()) (leave func(succeeded bool), err error) {
	if l == nil {
		return func(bool) {}, nil
	}
	one := l.limitOf(tool, ceiling)
	permit, ok := one.limiter.TryAcquirePermit()
	if !ok {
		waits()
		if permit, err = one.limiter.AcquirePermit(ctx); err != nil {
			return nil, err
		}
	}
	return func(succeeded bool) {
		if succeeded {
			permit.Record()
		} else {
			permit.Drop()
		}
	}, nil
}

// State is the current limit of a tool.
type State struct {
	// Limit is the maximum number of concurrent calls, from 1 to Most.
	Limit int `json:"limit"`
	Most  int `json:"limit_most"`
	// Raised and Lowered count the changes of the limit.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
}

// State returns the current limit of a tool. It returns nil for a tool without a limit.
func (l *Limits) State(tool string) *State {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[tool]
	if one == nil {
		return nil
	}
	return &State{Limit: one.limiter.Limit(), Most: one.ceiling, Raised: one.raised.Load(), Lowered: one.lowered.Load()}
}
