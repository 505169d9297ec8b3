package quota

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// enter starts a call that the quota must permit, and returns its pass.
func enter(t *testing.T, s *Set, r Rules, subjects ...Subject) *Pass {
	t.Helper()
	p, err := s.Enter(r, subjects...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refused checks that the given limit refuses a call, and returns the error.
func refused(t *testing.T, s *Set, r Rules, limit string, subjects ...Subject) *OverError {
	t.Helper()
	_, err := s.Enter(r, subjects...)
	over := (*OverError)(nil)
	if !errors.As(err, &over) || over.Limit != limit {
		t.Fatalf("the error is %v, and %s must refuse", err, limit)
	}
	if over.RetryAfter <= 0 {
		t.Errorf("the retry time of %v is %v", over, over.RetryAfter)
	}
	return over
}

func TestParallel(t *testing.T) {
	s := new(Set)
	r := Rules{"field:a": {Parallel: 2}}
	first, second := enter(t, s, r, "field:a"), enter(t, s, r, "field:a")
	refused(t, s, r, "parallel", "field:a")
	if _, err := s.Enter(r, "field:b"); err != nil {
		t.Errorf("a field without a quota is refused: %v", err)
	}
	first.Leave(Outcome{})
	first.Leave(Outcome{}) // a second Leave of the same pass must not free another slot
	third := enter(t, s, r, "field:a")
	refused(t, s, r, "parallel", "field:a")
	second.Leave(Outcome{})
	third.Leave(Outcome{})
	if st := s.Status(r); len(st) != 1 || st[0].Running != 0 || st[0].Calls != 3 || st[0].Refused["parallel"] != 2 {
		t.Errorf("the status is %+v", st)
	}
}

func TestCallsPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Set)
		r := Rules{"principal:*": {CallsPerMinute: 6}}
		for range 6 {
			enter(t, s, r, "principal:ci").Leave(Outcome{})
		}
		over := refused(t, s, r, "calls_per_minute", "principal:ci")
		if over.Subject != "principal:ci" {
			t.Errorf("the subject is %s", over.Subject)
		}
		enter(t, s, r, "principal:other").Leave(Outcome{}) // each principal has its own count
		time.Sleep(over.RetryAfter)
		enter(t, s, r, "principal:ci").Leave(Outcome{})
		refused(t, s, r, "calls_per_minute", "principal:ci")
		time.Sleep(time.Hour) // after a long pause, no more calls are saved up than for one minute
		for range 6 {
			enter(t, s, r, "principal:ci").Leave(Outcome{})
		}
		refused(t, s, r, "calls_per_minute", "principal:ci")
	})
}

func TestBytesPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Set)
		r := Rules{"field:a": {BytesPerMinute: 600}}
		enter(t, s, r, "field:a").Leave(Outcome{Bytes: 1200})
		over := refused(t, s, r, "bytes_per_minute", "field:a")
		if over.RetryAfter < time.Minute {
			t.Errorf("a debt of 600 bytes is paid after %v", over.RetryAfter)
		}
		time.Sleep(over.RetryAfter)
		enter(t, s, r, "field:a").Leave(Outcome{})
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Set)
		r := Rules{"field:a": {Breaker: Breaker{Failures: 3, Pause: time.Minute}}, "principal:p": {Breaker: Breaker{Failures: 2, Pause: time.Hour}}}
		fail := func(subject Subject, o Outcome) { enter(t, s, r, subject).Leave(o) }
		for range 5 {
			fail("field:a", Outcome{Ran: true, Failed: true}) // errors of the caller
			fail("field:a", Outcome{Failed: true})            // calls that did not reach the tool
		}
		for range 2 {
			fail("field:a", Outcome{Ran: true, Failed: true, Down: true})
		}
		fail("field:a", Outcome{Ran: true}) // a success ends the row of failures
		for range 3 {
			fail("field:a", Outcome{Ran: true, Failed: true, Down: true})
		}
		refused(t, s, r, "breaker", "field:a")
		time.Sleep(time.Minute - time.Millisecond)
		if over := refused(t, s, r, "breaker", "field:a"); over.RetryAfter != parallelRetry {
			t.Errorf("the retry time is %v", over.RetryAfter)
		}
		time.Sleep(time.Millisecond)
		trial := enter(t, s, r, "field:a")
		refused(t, s, r, "breaker", "field:a") // only one trial call is allowed at a time
		trial.Leave(Outcome{Ran: true})
		fail("field:a", Outcome{Ran: true})

		for range 2 {
			fail("principal:p", Outcome{Ran: true, Failed: true})
		}
		if st := s.Status(r); st[1].Breaker != "open" || st[1].RetryAfter < 3000 {
			t.Errorf("the status of the principal is %+v", st[1])
		}
		// A trial call that does not reach its tool must not block the subject forever.
		r["field:a"] = Limits{Breaker: Breaker{Failures: 1, Pause: 10 * time.Second}}
		fail("field:a", Outcome{Ran: true, Down: true})
		time.Sleep(10 * time.Second)
		enter(t, s, r, "field:a").Leave(Outcome{})
		time.Sleep(10 * time.Second)
		fail("field:a", Outcome{Ran: true})
	})
}

// TestRefusalUsesNothing checks that if the quota of one subject refuses a call, the call does not use up the quota of
// its other subject.
func TestRefusalUsesNothing(t *testing.T) {
	s := new(Set)
	r := Rules{"principal:p": {CallsPerMinute: 3}, "field:a": {Parallel: 1}}
	held := enter(t, s, r, "principal:p", "field:a")
	for range 10 {
		refused(t, s, r, "parallel", "principal:p", "field:a")
	}
	held.Leave(Outcome{})
	for range 2 {
		enter(t, s, r, "principal:p", "field:a").Leave(Outcome{})
	}
	refused(t, s, r, "calls_per_minute", "principal:p", "field:a")
}

// TestChangedRules checks that changed limits apply to the next call, even while earlier calls run.
func TestChangedRules(t *testing.T) {
	s := new(Set)
	held := enter(t, s, Rules{"field:a": {Parallel: 1}}, "field:a")
	more := enter(t, s, Rules{"field:a": {Parallel: 2}}, "field:a")
	refused(t, s, Rules{"field:a": {Parallel: 1}}, "parallel", "field:a")
	held.Leave(Outcome{})
	refused(t, s, Rules{"field:a": {Parallel: 1}}, "parallel", "field:a")
	more.Leave(Outcome{})
	enter(t, s, Rules{"field:a": {Parallel: 1}}, "field:a").Leave(Outcome{})
}

// TestRaisedRate checks that a raised limit of calls per minute applies at once, and that a lowered limit reduces the
// calls that were saved up.
func TestRaisedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Set)
		r := func(n int) Rules { return Rules{"field:a": {CallsPerMinute: n}} }
		enter(t, s, r(1), "field:a").Leave(Outcome{})
		refused(t, s, r(1), "calls_per_minute", "field:a")
		for range 3 {
			enter(t, s, r(4), "field:a").Leave(Outcome{})
		}
		refused(t, s, r(4), "calls_per_minute", "field:a")
		enter(t, s, r(100), "field:a").Leave(Outcome{})
		enter(t, s, r(1), "field:a").Leave(Outcome{})
		refused(t, s, r(1), "calls_per_minute", "field:a")
	})
}

// TestParallelUnderLoad checks that the number of concurrent calls never exceeds the limit.
func TestParallelUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		r := Rules{"field:a": {Parallel: 3}, "principal:*": {Parallel: 2}}
		var mu sync.Mutex
		running, most := 0, 0
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for range 200 {
					p, err := s.Enter(r, "field:a", Principal(string(rune('a'+i%4))))
					if err != nil {
						continue
					}
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
					mu.Lock()
					running--
					mu.Unlock()
					p.Leave(Outcome{})
				}
			})
		}
		all.Wait()
		if most > 3 {
			t.Errorf("%d calls ran at the same time", most)
		}
		for _, st := range s.Status(r) {
			if st.Running != 0 {
				t.Errorf("calls are left: %+v", st)
			}
		}
	})
}
