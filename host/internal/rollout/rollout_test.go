package rollout

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// trial is a rollout in its first step, with the fake clock of synctest.
type trial struct {
	*Rollout
	ended int
}

func begin(abort Abort) *trial {
	t := new(trial)
	var s Set
	t.Rollout = s.Start(Start{
		Plugin:   "p",
		Settings: Settings{Steps: []float64{50}, Pause: time.Second, Calls: 50, Abort: abort},
		End: func(r *Rollout, promote bool, _ string) {
			t.ended++
			if promote {
				r.Conclude()
			}
		},
	})
	return t
}

// serve makes each version serve the given number of calls, in turn.
func (t *trial) serve(calls int, old, now Outcome) {
	for range calls {
		time.Sleep(max(old.Duration, now.Duration))
		t.Served(0, old)
		t.Served(t.Begin(), now)
	}
}

// compare records compared calls. Among each hundred calls, the 50th has a different result, until the given number of
// calls has differed.
func (t *trial) compare(calls, differing int, o Outcome) {
	for i := range calls {
		var c *Case
		if i%100 == 49 && i/100 < differing {
			c = new(Case)
		}
		t.Compared(t.Begin(), c, o)
	}
}

func TestRules(t *testing.T) {
	fast, slow := Outcome{Duration: time.Millisecond}, Outcome{Duration: 30 * time.Millisecond}
	failed := Outcome{Failed: true, Duration: time.Millisecond}
	all := Abort{ErrorRatio: 1.2, P95Ratio: 2}
	for _, c := range []struct {
		name  string
		abort Abort
		run   func(*trial)
		state State
		why   string
	}{
		{"good", all, func(r *trial) { r.serve(2000, fast, fast) }, Promoted, "all steps passed"},
		{"slow", all, func(r *trial) { r.serve(400, fast, slow) }, Aborted, "p95_ratio: 95 % of the calls take up to 30ms, and 1ms on the old version"},
		{"slow without a rule", Abort{}, func(r *trial) { r.serve(400, fast, slow) }, Promoted, "all steps passed"},
		{"slow for many calls in a short time", all, func(r *trial) {
			for range 60 { // many callers at the same time
				time.Sleep(slow.Duration)
				for range 20 {
					r.Served(0, fast)
					r.Served(r.Begin(), slow)
				}
			}
			r.serve(1000, fast, fast)
		}, Promoted, "all steps passed"},
		{"both slow", all, func(r *trial) { r.serve(400, slow, slow) }, Promoted, "all steps passed"},
		{"fails", all, func(r *trial) { r.serve(20, fast, fast); r.serve(3, fast, failed) }, Aborted, "error_ratio: 13.0 % of 23 calls failed, and 0.0 % of 2"},
		{"both fail", all, func(r *trial) { r.serve(1500, failed, failed) }, Promoted, "all steps passed"},
		{"fails twice", all, func(r *trial) { r.serve(2, fast, failed); r.serve(2000, fast, fast) }, Promoted, "all steps passed"},
		{"differs", Abort{Differences: 0.01}, func(r *trial) {
			r.serve(100, fast, fast)
			r.compare(100, 2, fast)
		}, Aborted, "differences: 1 of 50 compared calls have another result"},
		{"differs seldom", Abort{Differences: 0.01}, func(r *trial) {
			r.compare(100, 0, fast)
			r.compare(400, 4, fast)
			r.serve(2000, fast, fast)
		}, Promoted, "all steps passed"},
		{"floods", Abort{OutputRatio: 10, ErrorRatio: 1.2}, func(r *trial) {
			r.serve(20, Outcome{Duration: time.Millisecond, Sent: 2 << 10}, fast)
			r.serve(3, fast, Outcome{Failed: true, Flooded: true, Sent: 1 << 20})
		}, Aborted, "output_ratio: 3 calls sent too much while they ran, such as 1024 KiB, and at most 2 KiB on the old version"},
		{"needs memory", Abort{MemoryRatio: 2}, func(r *trial) {
			r.memory = func() (old, now uint64) { return 100 << 20, 201 << 20 }
			r.serve(100, fast, fast)
			r.Check()
		}, Aborted, "memory_ratio: a process uses 201 MiB, and 100 MiB on the old version"},
		{"needs little memory", Abort{MemoryRatio: 2}, func(r *trial) {
			r.memory = func() (old, now uint64) { return 10 << 20, 60 << 20 }
			r.serve(2000, fast, fast)
		}, Promoted, "all steps passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(c.abort)
				c.run(r)
				st := r.Status()
				if st.State != c.state || !strings.HasPrefix(st.Why, c.why) || r.ended != 1 {
					t.Errorf("%s: %q, ended %d times; want %s: %q", st.State, st.Why, r.ended, c.state, c.why)
				}
			})
		})
	}
}

// TestStepWaitsForCalls checks that a step waits for the calls that began during the step.
func TestStepWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(Abort{})
		hangs := r.Begin()
		r.serve(2000, Outcome{Duration: time.Millisecond}, Outcome{Duration: time.Millisecond})
		r.Check()
		if st := r.Status(); st.State != Stepping {
			t.Fatalf("%s while a call hangs", st.State)
		}
		r.Served(hangs, Outcome{})
		r.Check()
		if st := r.Status(); st.State != Promoted {
			t.Errorf("%s after the call ended", st.State)
		}
	})
}

func TestShadowCallsWaitForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Set).Start(Start{Plugin: "p", Settings: Settings{Shadow: 100, Pause: time.Hour}, End: func(*Rollout, bool, string) {}})
		var ran atomic.Int64
		sample := func() {
			if !r.Shadow() {
				return
			}
			r.Later(func() {
				ran.Add(1)
				r.Compared(r.Begin(), nil, Outcome{})
			})
		}
		expect := func(what string, want int64) {
			t.Helper()
			synctest.Wait()
			if ran.Load() != want {
				t.Fatalf("%s: %d shadow calls ran, expected %d", what, ran.Load(), want)
			}
		}
		r.Serve()
		sample()
		time.Sleep(3 * shadowInterval)
		expect("while the old version serves a call", 0)
		r.Served(0, Outcome{})
		time.Sleep(shadowInterval)
		expect("after the call", 1)
		r.Serve()
		for range 2 * maxShadows {
			sample()
		}
		time.Sleep(maxShadowWait + shadowInterval)
		expect("while the old version is busy for long", 1+maxShadows)
		if st := r.Status(); st.Dropped != maxShadows || st.Compared != 1+maxShadows {
			t.Errorf("%d shadow calls were left out and %d compared, expected %d and %d", st.Dropped, st.Compared, maxShadows, 1+maxShadows)
		}
		time.Sleep(2 * shadowIdle) // the next call must start the goroutine again
		r.Served(0, Outcome{})
		sample()
		time.Sleep(2 * shadowInterval)
		expect("after a pause", 2+maxShadows)
		sample()
		if err := r.Do(ActionAbort, "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * shadowInterval)
		expect("after the end of the rollout", 2+maxShadows)
	}) // synctest fails the test if a goroutine remains
}
