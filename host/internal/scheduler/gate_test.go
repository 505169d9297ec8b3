package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"toolhost.dev/host/internal/scheduler"
)

func TestGateLimits(t *testing.T) {
	g := new(scheduler.Gates)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 50 {
				leave, err := g.Enter(t.Context(), "x", scheduler.Limits{Max: 3}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				inside.Add(-1)
				leave()
				leave() // a second call must have no effect
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestGateOrderAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := new(scheduler.Gates)
		limits := scheduler.Limits{Max: 1, Queue: 4}
		first, err := g.Enter(t.Context(), "x", limits, 0)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, priority := range []int{0, 5, 0, 5} {
			wg.Go(func() {
				leave, err := g.Enter(t.Context(), "x", limits, priority)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, fmt.Sprint(i))
				mu.Unlock()
				leave()
			})
			synctest.Wait()
		}
		var full *scheduler.FullError
		if _, err := g.Enter(t.Context(), "x", limits, 9); !errors.As(err, &full) || full.Waiting != 4 {
			t.Errorf("%v", err)
		}
		if _, err := g.Enter(t.Context(), "x", scheduler.Limits{Max: 1, Queue: -1}, 9); !errors.As(err, &full) {
			t.Errorf("%v", err)
		}
		if leave, err := g.Enter(t.Context(), "y", limits, 0); err != nil {
			t.Errorf("another gate: %v", err)
		} else {
			leave()
		}
		first()
		wg.Wait()
		if !slices.Equal(order, []string{"1", "3", "0", "2"}) {
			t.Errorf("%v", order)
		}
	})
}

func TestGateGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := new(scheduler.Gates)
		limits := scheduler.Limits{Max: 1}
		leave, err := g.Enter(t.Context(), "x", limits, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := g.Enter(ctx, "x", limits, 0)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		leave()
		if leave, err = g.Enter(t.Context(), "x", limits, 0); err != nil {
			t.Errorf("who gave up kept the place: %v", err)
		}
		leave()
	})
}
