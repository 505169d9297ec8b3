package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

func TestBusyTools(t *testing.T) {
	inside, let := make(chan struct{}, 10), make(chan struct{})
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		inside <- struct{}{}
		<-let
		return &tool.Result{Output: "ok"}
	})
	d.Limits.Gates = new(scheduler.Gates)
	limits := &d.Registry.Lookup("", "look").Limits
	limits.MaxConcurrent, limits.Queue = 1, -1
	done := make(chan *tool.Result)
	go func() { done <- run(t, d, "look") }()
	<-inside
	res := d.Begin(call.Request{ID: "2", Command: "look", Session: session("other")}).Run(t.Context(), client{})
	if res.Error == nil || res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "Tool look is busy: 1 calls are running and 0 are queued, the configured maximum") {
		t.Errorf("%+v", res.Error)
	}
	close(let)
	if res := <-done; !res.Success() {
		t.Error(res.Error)
	}
	if res := run(t, d, "look"); !res.Success() {
		t.Error(res.Error)
	}
}

// TestJobNeedsNoRoom checks that the bundled tool for jobs can run while other calls use all slots. Otherwise nobody
// could stop these calls. A tool of others needs room whatever role it claims.
func TestJobNeedsNoRoom(t *testing.T) {
	for _, role := range []tool.Role{tool.RoleJobs, tool.RoleAsk} {
		for _, bundled := range []bool{true, false} {
			if ran := runsWithoutRoom(t, role, bundled); ran != bundled {
				t.Errorf("%s, bundled %v: a call without room runs: %v", role, bundled, ran)
			}
		}
	}
}

// runsWithoutRoom reports whether a call of a tool with a role runs while another call uses the only slot.
func runsWithoutRoom(t *testing.T, role tool.Role, bundled bool) bool {
	t.Helper()
	d := dispatcher(t, ok)
	d.Limits.Gates, d.Limits.MaxCalls, d.Limits.Adaptive, d.Limits.MaxWait = new(scheduler.Gates), 1, new(adaptive.Learned), 100*time.Millisecond // MaxWait ends a call that waits
	ran := false
	d.Limits.Stage().Wrap(func(ctx context.Context, _ *Call) *tool.Result {
		job := prepared(t, d, "look")
		entry := *job.Identity.Tool
		entry.Definition.Role, entry.Bundled = role, bundled
		job.Identity.Tool = &entry
		d.Limits.Stage().Wrap(func(context.Context, *Call) *tool.Result {
			ran = true
			return &tool.Result{}
		})(ctx, job)
		return &tool.Result{}
	})(t.Context(), prepared(t, d, "look"))
	return ran
}

func TestLimits(t *testing.T) {
	for name, set := range map[string]func(*rig){
		"host":     func(d *rig) { d.Limits.Gates, d.Limits.MaxCalls = new(scheduler.Gates), 1 },
		"adaptive": func(d *rig) { d.Limits.Adaptive = new(adaptive.Learned) },
		"both": func(d *rig) {
			d.Limits.Gates, d.Limits.MaxCalls, d.Limits.Adaptive = new(scheduler.Gates), 1, new(adaptive.Learned)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := dispatcher(t, ok)
			set(d)
			d.Registry.Lookup("", "look").Limits.MaxConcurrent = 1
			ran := func(context.Context, *Call) *tool.Result { return &tool.Result{Output: "ran"} }
			outer := prepared(t, d, "look")
			res := d.Limits.Stage().Wrap(func(context.Context, *Call) *tool.Result {
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				other := prepared(t, d, "look")
				must(t, d.Limits.Stage().Wrap(noNext(t))(gone, other), tool.Canceled, "")
				if !other.Outcome.Waited || !other.Outcome.Full {
					t.Errorf("%+v", other.Outcome)
				}
				inner := prepared(t, d, "look")
				inner.Identity.Depth = 1
				return d.Limits.Stage().Wrap(ran)(t.Context(), inner)
			})(t.Context(), outer)
			if res.Output != "ran" || outer.Outcome.Waited || outer.Outcome.Full {
				t.Errorf("%+v, %+v", res, outer.Outcome)
			}
			outer.Release()
			again := prepared(t, d, "look")
			if res := d.Limits.Stage().Wrap(ran)(t.Context(), again); res.Output != "ran" || again.Outcome.Waited {
				t.Errorf("the room was not returned: %+v, %+v", res, again.Outcome)
			}
		})
	}
}

// TestToolsWithoutAnAdaptiveLimit checks that the adaptive mode ignores two kinds of tools. These are tools that
// control their own timeout, and tools whose calls run one at a time.
func TestToolsWithoutAnAdaptiveLimit(t *testing.T) {
	d := dispatcher(t, ok)
	d.Limits.Adaptive = new(adaptive.Learned)
	d.Registry.Lookup("", "stat").Timeout = -1
	for name, limited := range map[string]bool{"look": true, "change": false, "stat": false} {
		run(t, d, name)
		if st := d.Limits.Adaptive.Limits.State(name); (st != nil) != limited {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestRoomInTheToolIsReturned checks that a call that fails at the limit of the host immediately frees the slot of its
// tool.
func TestRoomInTheToolIsReturned(t *testing.T) {
	d := dispatcher(t, ok)
	d.Limits.Gates, d.Limits.MaxCalls = new(scheduler.Gates), 1
	d.Registry.Lookup("", "look").Limits.MaxConcurrent = 1
	leave, err := d.Limits.Gates.Enter(t.Context(), "", scheduler.Limits{Max: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, d.Limits.Stage().Wrap(noNext(t))(gone, prepared(t, d, "look")), tool.Canceled, "")
	if leave, err := d.Limits.Gates.Enter(t.Context(), "look", scheduler.Limits{Max: 1, Queue: -1}, 0); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

// TestAFullQueueRefusesAtOnce checks that calls that wait for their session count in the queue of their tool.
func TestAFullQueueRefusesAtOnce(t *testing.T) {
	for queue, accepted := range map[int]int{-1: 1, 1: 2, 2: 3, 0: 6} {
		release := make(chan struct{})
		d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
			<-release
			return &tool.Result{Output: "ok"}
		})
		d.Limits.Gates = new(scheduler.Gates)
		limits := &d.Registry.Lookup("", "change").Limits
		limits.MaxConcurrent, limits.Queue = 1, queue
		var wg sync.WaitGroup
		var ran, refused atomic.Int64
		for i := range 6 {
			p := begin(d, fmt.Sprint(i), "s", "change")
			if p.call.Identity.Answer != nil { // an answer means that the call was refused
				must(t, p.Run(t.Context(), client{}), tool.Unavailable, fmt.Sprintf("Tool change is busy: 1 calls are running and %d are queued", accepted-1))
				refused.Add(1)
				continue
			}
			wg.Go(func() {
				if p.Run(t.Context(), client{}).Success() {
					ran.Add(1)
				}
			})
		}
		close(release)
		wg.Wait()
		if int(ran.Load()) != accepted || int(refused.Load()) != 6-accepted {
			t.Errorf("queue %d: %d calls ran, %d were refused", queue, ran.Load(), refused.Load())
		}
		// All slots must be free again, even after a call that was abandoned.
		begin(d, "7", "s", "change").Abandon()
		if res := run(t, d, "change"); !res.Success() {
			t.Error(res.Error)
		}
	}
}
