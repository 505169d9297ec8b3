package adaptive

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeout(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		count                       uint64
		p95, average, given, expect time.Duration
	}{
		{Samples - 1, s, s, 120 * s, 120 * s}, // too few calls to shorten the timeout
		{Samples, s, s, 120 * s, 5 * s},       // not less than LeastTimeout
		{Samples, 10 * s, s, 120 * s, 15 * s},
		{Samples, 4 * s, 4 * s, 120 * s, 12 * s},
		{Samples, 100 * s, 90 * s, 120 * s, 120 * s}, // not more than the given timeout
		{Samples, s, s, 2 * s, 2 * s},
	} {
		if got := Timeout(c.count, c.p95, c.average, c.given); got != c.expect {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestNoMoreRunAtOnceThanTheCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limits
		var now, most, waited atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				leave, err := l.Enter(t.Context(), "t", 3, func() { waited.Add(1) })
				if err != nil {
					t.Error(err)
					return
				}
				defer leave(true)
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(2 * time.Millisecond)
			})
		}
		wg.Wait()
		if st := l.State("t"); most.Load() > 3 || waited.Load() == 0 || st.Most != 3 || st.Limit < 1 || st.Limit > 3 {
			t.Errorf("%d ran at once, %d waited, %+v", most.Load(), waited.Load(), st)
		}
		if l.State("other") != nil {
			t.Error("a tool that was not called has a limit")
		}

		leave, err := l.Enter(t.Context(), "one", 1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Enter(ctx, "one", 1, func() {}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		leave(false)
		if leave, err := l.Enter(t.Context(), "one", 1, func() { t.Error("the place was not given back") }); err != nil {
			t.Error(err)
		} else {
			leave(true)
		}
	})
}
