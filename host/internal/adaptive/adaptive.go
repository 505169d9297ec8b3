// Package adaptive sets limits of tools by how their calls went, within bounds.
package adaptive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

const (
	// LeastTimeout is what every call has at least.
	LeastTimeout = 5 * time.Second
	// Samples is how many calls must have run before anything is told from them.
	Samples = 20
	// most calls of a tool run at once that has no max_concurrent; usual is where it begins.
	most, usual = 64, 20
)

// Timeout gives the time for a call of a tool: max(1.5·p95, 3·average, [LeastTimeout]), but never
// more than it has without that.
func Timeout(count uint64, p95, average, given time.Duration) time.Duration {
	if count < Samples {
		return given
	}
	return min(given, max(p95+p95/2, 3*average, LeastTimeout))
}

// Limits are the concurrency limits of all tools. The zero value is ready. It is safe for
// concurrent use; nil: there are none.
type Limits struct {
	mu sync.Mutex
	by map[string]*limit
}

// limit is that of one tool.
type limit struct {
	limiter         adaptivelimiter.AdaptiveLimiter[any]
	ceiling         int
	raised, lowered atomic.Uint64
}

// of gives a tool's limit; another ceiling begins anew.
func (l *Limits) of(tool string, ceiling int) *limit {
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

// Enter waits until a call of a tool may run, of which at most ceiling do at once (0: a common
// bound). waits is called when it has to wait. leave must be called once, when the call has
// ended; succeeded: how long it took says something.
func (l *Limits) Enter(ctx context.Context, tool string, ceiling int, waits func()) (leave func(succeeded bool), err error) {
	if l == nil {
		return func(bool) {}, nil
	}
	one := l.of(tool, ceiling)
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

// State is what a tool's limit has come to.
type State struct {
	// Limit of calls at once, from 1 to Most.
	Limit int `json:"limit"`
	Most  int `json:"limit_most"`
	// Raised and Lowered count how often it was changed.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
}

// State of a tool's limit; nil: it has none.
func (l *Limits) State(tool string) *State {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[tool]
	if one == nil {
		return nil
	}
	return &State{Limit: one.limiter.Limit(), Most: one.ceiling, Raised: one.raised.Load(), Lowered: one.lowered.Load()}
}
