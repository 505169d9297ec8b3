package scheduler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/host/internal/scheduler"
)

// enqueue queues a call of a batch.
func enqueue(s *scheduler.Scheduler, session string, safe bool) *scheduler.Ticket {
	k := s.Enqueue(session)
	k.Claim(scheduler.Claim{InOrder: true, Safe: safe})
	return k
}

// admitted reports whether the call of a ticket can start now. It does not wait.
func admitted(t *testing.T, k *scheduler.Ticket) (done func(), ok bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done, err := k.Wait(ctx)
	return done, err == nil
}

func wait(t *testing.T, k *scheduler.Ticket) func() {
	t.Helper()
	done, err := k.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// model is a simple implementation of a session's queue. The first waiting call starts as soon as the running
// calls permit it.
type model struct {
	limit   int
	waiting []int
	running []int
	safe    map[int]bool
}

func (m *model) advance() {
	for len(m.waiting) > 0 {
		next := m.waiting[0]
		alone := slices.ContainsFunc(m.running, func(i int) bool { return !m.safe[i] })
		if alone || len(m.running) >= m.limit || !m.safe[next] && len(m.running) > 0 {
			return
		}
		m.waiting, m.running = m.waiting[1:], append(m.running, next)
	}
}

func (m *model) remove(from *[]int, i int) {
	*from = slices.DeleteFunc(*from, func(x int) bool { return x == i })
	m.advance()
}

// TestAgainstModel applies the same random operations to the scheduler and to the model. The same calls must run in the
// scheduler and in the model.
func TestAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		limit := 1 + rng.IntN(4)
		s, m := scheduler.New(limit), &model{limit: limit, safe: make(map[int]bool)}
		tickets, done := make(map[int]*scheduler.Ticket), make(map[int]func())
		for step := range 60 {
			switch rng.IntN(4) {
			case 0, 1:
				safe := rng.IntN(3) > 0
				m.safe[step] = safe
				tickets[step] = enqueue(s, "s", safe)
				m.waiting = append(m.waiting, step)
				m.advance()
			case 2:
				if len(m.running) > 0 {
					i := m.running[rng.IntN(len(m.running))]
					done[i]()
					done[i]() // a second call of done must have no effect
					delete(done, i)
					m.remove(&m.running, i)
				}
			case 3:
				if len(m.waiting) > 0 {
					i := m.waiting[rng.IntN(len(m.waiting))]
					tickets[i].Abandon()
					m.remove(&m.waiting, i)
				}
			}
			for _, i := range m.running {
				if done[i] == nil { // blocks if the scheduler does not run the call
					done[i] = wait(t, tickets[i])
				}
			}
		}
		// All remaining calls must still be waiting.
		for len(m.waiting) > 0 {
			i := m.waiting[len(m.waiting)-1]
			if _, ok := admitted(t, tickets[i]); ok {
				t.Fatalf("call %d runs beside %v", i, m.running)
			}
			m.remove(&m.waiting, i)
		}
	}
}

// TestConcurrentUse checks that a call that is not concurrency-safe always runs alone. The number of concurrent calls
// must never exceed the limit.
func TestConcurrentUse(t *testing.T) {
	s := scheduler.New(3)
	var running, alone, ran atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if rng.IntN(4) == 0 {
					go cancel()
				}
				safe := rng.IntN(2) == 0
				done, err := enqueue(s, "s", safe).Wait(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					cancel()
					continue
				}
				n := running.Add(1)
				if !safe {
					alone.Add(1)
				}
				if n > 3 || alone.Load() > 0 && n > 1 {
					t.Errorf("%d run at once, %d of them alone", n, alone.Load())
				}
				ran.Add(1)
				if !safe {
					alone.Add(-1)
				}
				running.Add(-1)
				done()
				cancel()
			}
		})
	}
	wg.Wait()
	if ran.Load() == 0 {
		t.Error("nothing ran")
	}
	// The queue must still accept calls.
	wait(t, enqueue(s, "s", false))()
}

func TestSessionsDoNotWaitForEachOther(t *testing.T) {
	s := scheduler.New(1)
	defer wait(t, enqueue(s, "a", false))()
	wait(t, enqueue(s, "b", false))()
}

func TestUnsafeIsNotStarved(t *testing.T) {
	s := scheduler.New(10)
	first := wait(t, enqueue(s, "s", true))
	unsafe := enqueue(s, "s", false)
	later := enqueue(s, "s", true)
	if _, ok := admitted(t, enqueue(s, "s", true)); ok {
		t.Error("a later call overtook one that waits to run alone")
	}
	first()
	done := wait(t, unsafe)
	done()
	wait(t, later)()
}

// TestGivingUpLetsOthersPass checks that calls behind an abandoned call can start immediately.
func TestGivingUpLetsOthersPass(t *testing.T) {
	s := scheduler.New(10)
	defer wait(t, enqueue(s, "s", true))()
	unsafe := enqueue(s, "s", false)
	later := enqueue(s, "s", true)
	unsafe.Abandon()
	wait(t, later)()
}

// TestDeadlineWhileWaiting checks that a waiting call leaves the queue when its context ends.
func TestDeadlineWhileWaiting(t *testing.T) {
	s := scheduler.New(1)
	done := wait(t, enqueue(s, "s", false))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := enqueue(s, "s", true).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	done()
	wait(t, enqueue(s, "s", false))()
}

func TestLimitIsAtLeastOne(t *testing.T) {
	for _, n := range []int{-1, 0} {
		wait(t, enqueue(scheduler.New(n), "s", true))()
	}
}

// TestPark checks that later calls do not wait for a parked call, that it waits for them when it comes back, and that
// nothing is left of it if it does not.
func TestPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(1)
		start := func() (*scheduler.Ticket, func()) {
			k := s.Enqueue("s")
			k.Claim(scheduler.Claim{Kind: scheduler.Shell, Moves: true})
			done, err := k.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return k, done
		}
		for _, comesBack := range []bool{true, false} {
			k, done := start()
			back := k.Park()
			_, other := start()
			ctx, cancel := context.WithCancel(t.Context())
			if !comesBack {
				cancel()
			}
			got := make(chan error, 1)
			go func() { got <- back(ctx) }()
			synctest.Wait()
			if waits := len(got) == 0; waits != comesBack {
				t.Errorf("comes back: %t, waits: %t", comesBack, waits)
			}
			other()
			if err := <-got; (err == nil) != comesBack {
				t.Errorf("comes back: %t: %v", comesBack, err)
			}
			done()
			cancel()
			if left := s.Calls(); len(left) != 0 {
				t.Errorf("%+v", left)
			}
			_, again := start()
			again()
		}
	})
}
