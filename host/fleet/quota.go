package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
)

// quotas counts the calls of principals in the whole fleet. A gateway takes a slice of the calls that a principal may
// still make, and uses the slice for at most a second. So few calls need a request to the coordinators, and each
// gateway exceeds a limit by at most one slice.
type quotas struct {
	mu sync.Mutex
	by map[string]*slice
}

// slice is the number of calls that a gateway has taken from an allowance.
type slice struct {
	turn  chan struct{} // contains a value while a call uses the fields below
	left  int
	until time.Time
	// failed is the error of the last request to the coordinators. Calls that waited for this request use its error. A
	// request of each call would make them wait one after another.
	failed error
	tried  time.Time
}

// allowance is the number of calls that a principal may still make in the fleet.
type allowance struct {
	Left float64   `json:"left"`
	At   time.Time `json:"at"`
}

const (
	// A gateway takes one part in sliceShare of the remaining calls.
	sliceShare = 8
	sliceLife  = time.Second
)

// admit counts a call against the limit of its principal in the whole fleet.
func (f *Fleet) admit(ctx context.Context, p *host.Principal) error {
	limit := f.host.CallsPerMinute(p)
	if limit == 0 {
		return nil
	}
	return f.admitWithin(ctx, p.Name, limit)
}

// sliceOf returns the slice of a principal.
func (q *quotas) sliceOf(name string) *slice {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by == nil {
		q.by = make(map[string]*slice)
	}
	s := q.by[name]
	if s == nil {
		s = &slice{turn: make(chan struct{}, 1)}
		q.by[name] = s
	}
	return s
}

// admitWithin counts a call of a principal that may make perMinute calls.
func (f *Fleet) admitWithin(ctx context.Context, name string, perMinute int) error {
	s, began := f.quotas.sliceOf(name), time.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return tool.Errorf(tool.Canceled, "The call did not start, because its caller ended it while it waited for its quota. Nothing was run.")
	}
	defer func() { <-s.turn }()
	if s.left > 0 && time.Now().Before(s.until) {
		s.left--
		return nil
	}
	taken, wait, err := 0, time.Duration(0), s.failed
	if err == nil || s.tried.Before(began) {
		taken, wait, err = f.takeSlice(ctx, name, float64(perMinute))
		if s.failed, s.tried = err, time.Now(); ctx.Err() != nil {
			s.failed = nil // the caller of this call went away, which says nothing about the coordinators
		}
	}
	switch {
	case err != nil && s.left > 0: // the coordinators do not answer: use the rest of the old slice
		s.left--
		return nil
	case err != nil:
		return tool.Errorf(tool.Unavailable, "The calls of principal %q are limited in the whole fleet, and the coordinators do not answer: %w. Nothing was run.", name, err).WithRetryAfter(time.Second)
	case taken == 0:
		return tool.Errorf(tool.Unavailable, "The principal %s is over its quota in the fleet, calls_per_minute = %d. Nothing was run. Call again in %d s. The operator changes the limit in the quota block of the principal.", name, perMinute, max(1, int(wait.Seconds()+0.5))).WithRetryAfter(wait)
	}
	s.left, s.until = taken-1, time.Now().Add(sliceLife)
	return nil
}

// takeSlice takes a part of the calls that a principal may still make. If no call is left, wait is the time until the
// principal may make the next call.
func (f *Fleet) takeSlice(ctx context.Context, name string,
	perMinute float64) (taken int, wait time.Duration, err error) {
	key := directory.Key(name, "", "")
	for range 20 {
		c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
		e, err := f.bus.Quota.Get(c, key)
		cancel()
		now, a, revision := f.lease.Now(), allowance{Left: perMinute}, uint64(0)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
		case err != nil:
			return 0, 0, err
		default:
			revision = e.Revision()
			if err := json.Unmarshal(e.Value(), &a); err != nil {
				return 0, 0, fmt.Errorf("the allowance cannot be read: %w", err)
			}
			a.Left = min(perMinute, a.Left+max(0, now.Sub(a.At).Minutes())*perMinute)
		}
		if a.Left < 1 {
			return 0, time.Duration((1 - a.Left) / perMinute * float64(time.Minute)), nil
		}
		taken = max(1, int(a.Left/sliceShare))
		b, err := json.Marshal(allowance{Left: a.Left - float64(taken), At: now})
		if err != nil {
			return 0, 0, err
		}
		c, cancel = context.WithTimeout(ctx, 2*bus.TryTimeout)
		_, err = f.bus.Quota.Update(c, key, b, revision)
		cancel()
		if err == nil {
			return taken, 0, nil
		}
		if !bus.IsConflict(err) {
			return 0, 0, err
		}
	}
	return 0, 50 * time.Millisecond, nil
}
