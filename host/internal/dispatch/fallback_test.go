package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

// TestAFallbackKeepsTheTurnAndTheRoomOfItsCall checks that a call keeps its queue position and its concurrency slots
// until its fallback ends.
func TestAFallbackKeepsTheTurnAndTheRoomOfItsCall(t *testing.T) {
	for name, session := range map[string]string{"turn": "s", "room": "other"} {
		t.Run(name, func(t *testing.T) {
			var order []string
			var mu sync.Mutex
			falling, second := make(chan struct{}), make(chan struct{}, 1)
			d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
				note := func(s string) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, s)
				}
				switch {
				case call.ID == "2":
					note("second")
					second <- struct{}{}
				case call.Tool == "look":
					return unavailable()
				default:
					close(falling)
					select {
					case <-second: // fail, because the second call started too early
					case <-time.After(100 * time.Millisecond):
					}
					note("fallback")
				}
				return &tool.Result{Output: call.Tool}
			})
			if name == "room" {
				d.Limits.Gates, d.Limits.MaxCalls = new(scheduler.Gates), 1
			}
			d.Registry.Lookup("", "look").Limits.Fallback = "change"
			var wg sync.WaitGroup
			first := begin(d, "1", "s", "look")
			next := begin(d, "2", session, "change")
			wg.Go(func() {
				if res := first.Run(t.Context(), client{}); res.Output != "change" {
					t.Errorf("%+v", res)
				}
			})
			<-falling
			wg.Go(func() { next.Run(t.Context(), client{}) })
			wg.Wait()
			if !slices.Equal(order, []string{"fallback", "second"}) {
				t.Errorf("%v", order)
			}
		})
	}
}

// TestNoFallbackForACallThatDidNotReachItsTool checks that a fallback runs only if the tool is unavailable or fails.
// The fallback must not run if the call ends while it waits for its session, for hooks or for an answer.
func TestNoFallbackForACallThatDidNotReachItsTool(t *testing.T) {
	var fell atomic.Bool
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		if call.Tool == "look" {
			fell.Store(true)
			return &tool.Result{}
		}
		return untilDone(ctx, call, peer)
	})
	d.Registry.Lookup("", "brief").Limits.Fallback, d.Limits.MaxWait = "look", time.Millisecond

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	first, second := begin(d, "1", "s", "change"), begin(d, "2", "s", "brief")
	wg.Go(func() { first.Run(ctx, client{}) })
	res := second.Run(t.Context(), client{})
	if res.Error == nil || res.Error.Kind != tool.Timeout || !strings.Contains(res.Error.Message, "brief did not start, because it waited longer than 1ms for change (the tool runs alone)") || fell.Load() {
		t.Errorf("%v, fallback %t", res.Error, fell.Load())
	}
	stop()
	wg.Wait()

	d = dispatcher(t, d.Plugins.(plugins))
	d.Registry.Lookup("", "brief").Limits.Fallback = "look"
	d.Hooks = hookOn(tool.HookBefore, func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		if in.Tool == "brief" {
			stop()
			<-ctx.Done()
		}
		return nil, nil
	})
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	res = begin(d, "1", "s", "brief").Run(ctx, client{})
	if res.Error == nil || res.Error.Kind != tool.Canceled || !strings.Contains(res.Error.Message, "waited for hooks or a person's answer") || fell.Load() {
		t.Errorf("%v, fallback %t", res.Error, fell.Load())
	}
	// The denied call must not remain in the queue.
	if res := run(t, d, "look"); !res.Success() {
		t.Error(res.Error)
	}
}

func TestABusyToolHasItsFallback(t *testing.T) {
	inside, let := make(chan struct{}), make(chan struct{})
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.ID == "1" {
			close(inside)
			<-let
		}
		return &tool.Result{Output: call.Tool}
	})
	d.Limits.Gates = new(scheduler.Gates)
	limits := &d.Registry.Lookup("", "look").Limits
	limits.MaxConcurrent, limits.Queue, limits.Fallback = 1, -1, "stat"
	var wg sync.WaitGroup
	first := begin(d, "1", "s", "look")
	wg.Go(func() { first.Run(t.Context(), client{}) })
	<-inside
	if res := begin(d, "2", "other", "look").Run(t.Context(), client{}); res.Output != "stat" {
		t.Errorf("%+v", res)
	}
	close(let)
	wg.Wait()
}

func TestFallback(t *testing.T) {
	down := tool.Failed(tool.Errorf(tool.Unavailable, "it is down"))
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			res := *down
			return &res
		}
		return &tool.Result{Output: call.Tool + string(call.Arguments)}
	})
	limits := &d.Registry.Lookup("", "look").Limits
	limits.Fallback, limits.FallbackParams = "change", map[string]string{"path": "text"}
	if res := run(t, d, "look --path x.txt"); res.Output != `change{"text":"x.txt"}` || res.Metadata["fallback_for"] != "look" || res.Run.CallID != "1" {
		t.Errorf("%+v %v", res, res.Error)
	}
	// If the fallback tool also fails, the call must return its first error.
	limits.Fallback = "off"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Message != "it is down" {
		t.Errorf("%+v", res)
	}
	// If the fallback tool is the same tool, it must run only one more time.
	limits.Fallback = "look"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Message != "it is down" {
		t.Errorf("%+v", res)
	}
	down.Error = tool.Errorf(tool.NotFound, "there is no such file")
	limits.Fallback = "change"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("an answer of the tool is no reason: %+v", res)
	}
}

func TestNoFallbackForACallerThatHasGone(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	d.Registry.Lookup("", "look").Limits.Fallback = "change"
	c := prepared(t, d, "look")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, (&Fallbacks{Host: d}).Stage().Wrap(func(context.Context, *Call) *tool.Result {
		c.Outcome.Ran = true
		return unavailable()
	})(ctx, c), tool.Unavailable, "it is down")
	if l.taken.Load() != 1 {
		t.Errorf("%d leases", l.taken.Load())
	}
}

// TestTheClientSeesAFallback checks that the client receives the output of a fallback, even if hooks of the original
// tool hide output. These hooks do not apply to the fallback tool.
func TestTheClientSeesAFallback(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		peer.Output(tool.Stdout, []byte(call.Tool))
		if call.Tool == "look" {
			return unavailable()
		}
		return new(tool.Result)
	})
	d.Hooks = hookOn(tool.HookAfter, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return nil, nil }, "look")
	d.Registry.Lookup("", "look").Limits.Fallback = "change"
	f := new(heard)
	if res := begin(d, "1", "s", "look").Run(t.Context(), f); !res.Success() || f.n != 1 {
		t.Errorf("%+v, shown %d times", res, f.n)
	}
}
