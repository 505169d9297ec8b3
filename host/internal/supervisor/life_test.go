package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/testprogram"
)

// running is a supervisor whose plugins are programs in the process of the test.
type running struct {
	*supervisor.Supervisor
	t        *testing.T
	dir      string
	programs *testprogram.Programs

	mu     sync.Mutex
	events []supervisor.Event
}

// begin returns a supervisor that is closed at the end of the test.
func begin(t *testing.T) *running {
	r := &running{t: t, dir: t.TempDir(), programs: testprogram.New(t)}
	r.Supervisor = supervisor.New(supervisor.Options{HostVersion: "1.0.0", Programs: r.programs})
	t.Cleanup(func() { r.Close(0) })
	return r
}

// add adds a plugin whose program has the given words.
func (r *running) add(words string, spec supervisor.Spec) *supervisor.Plugin {
	if spec.Name == "" {
		spec.Name = "p"
	}
	spec.Path = filepath.Join(r.dir, spec.Name)
	r.programs.Write(spec.Path, words)
	spec.Host = &observer{r: r}
	return r.Add(spec)
}

// observer is the host of a plugin that keeps its events.
type observer struct {
	supervisor.Alone
	r *running
}

func (o *observer) Observe(e supervisor.Event, _ string) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	o.r.events = append(o.r.events, e)
}

// observed returns the events so far.
func (r *running) observed() []supervisor.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// call calls a tool of a plugin.
func call(ctx context.Context, p *supervisor.Plugin, name, args string) *tool.Result {
	lease := (supervisor.Set{"p": p}).Reserve("p", "")
	if lease == nil {
		return tool.Failed(tool.Errorf(tool.Unavailable, "no lease"))
	}
	defer lease.Release()
	return lease.Call(ctx, &tool.Call{ID: "1", Tool: name, Arguments: json.RawMessage(args), SessionID: "s", Cwd: "/"}, testprogram.Peer{})
}

func failsWith(t *testing.T, res *tool.Result, kind tool.Kind, text string) {
	t.Helper()
	if res.Error == nil || res.Error.Kind != kind || !strings.Contains(res.Error.Message, text) {
		t.Errorf("%+v, want %s with %q", res.Error, kind, text)
	}
}

func succeeds(t *testing.T, res *tool.Result, output string) {
	t.Helper()
	if res.Error != nil || !strings.Contains(res.Output, output) {
		t.Errorf("%q, %v; want %q", res.Output, res.Error, output)
	}
}

// TestSuspension checks that a plugin that keeps failing is suspended for its pause. After the pause, a single start
// decides.
func TestSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("start=exit", supervisor.Spec{Restart: supervisor.Restart{MaxFailures: 3, Pause: time.Minute}})
		for range 3 {
			failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "did not start: the plugin exited before its handshake: exit status 3")
		}
		suspended := time.Now()
		failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "failed 3 times in a row and is suspended. The next start is in 1m0s")
		if st := p.Status(); !p.Suspended() || st.Breaker != supervisor.BreakerOpen || st.Failures != 3 || !st.NextAttempt.Equal(suspended.Add(time.Minute)) {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Minute - time.Millisecond)
		failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "is suspended")
		if n := len(r.programs.Started()); n != 3 {
			t.Errorf("%d starts while the plugin is suspended", n)
		}
		time.Sleep(time.Millisecond)
		failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "did not start")
		failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "failed 4 times in a row and is suspended")
		time.Sleep(time.Minute)
		r.programs.Write(filepath.Join(r.dir, "p"), "version=2.0.0")
		succeeds(t, call(t.Context(), p, "where", "{}"), "version=2.0.0")
		if st := p.Status(); p.Suspended() || st.Breaker != supervisor.BreakerClosed || st.Failures != 0 || st.Starts != 5 {
			t.Errorf("%+v", st)
		}
		want := []supervisor.Event{
			supervisor.Failed, supervisor.Failed, supervisor.Failed, supervisor.Suspended, supervisor.Failed, supervisor.Suspended, supervisor.Started, supervisor.Resumed,
		}
		if got := r.observed(); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

// TestBackoff checks that the delay before a start grows with the number of failures in a row, up to a limit.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("start=exit", supervisor.Spec{Restart: supervisor.Restart{MaxFailures: 100}})
		for i, want := range []time.Duration{0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			began := time.Now()
			failsWith(t, call(t.Context(), p, "where", "{}"), tool.Unavailable, "did not start")
			if took := time.Since(began); took != want*time.Millisecond {
				t.Errorf("start %d after %s, want %dms", i, took, want)
			}
		}
	})
}

// TestRestarts checks that a plugin whose program ends is started again: at the next call, or after a short delay
// without a call. A retired plugin is not.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("", supervisor.Spec{})
		failsWith(t, call(t.Context(), p, "die", "{}"), tool.Unavailable, "Plugin p ended during the call of die (exit status 7). The plugin is started again. It is unknown whether this call took effect.")
		succeeds(t, call(t.Context(), p, "where", "{}"), fmt.Sprint("pid=", r.programs.Started()[1].PID()))
		r.programs.Running()[0].End(nil)
		time.Sleep(250*time.Millisecond - 1)
		if n := len(r.programs.Started()); n != 2 {
			t.Errorf("%d programs were started too early", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if st := p.Status(); !st.Running || st.Starts != 3 || st.Crashes != 2 || st.Failures != 0 {
			t.Errorf("%+v", st)
		}
		p.Retire()
		synctest.Wait()
		if n := len(r.programs.Running()); n != 0 {
			t.Errorf("%d programs of the retired plugin run", n)
		}
		time.Sleep(time.Minute)
		if n := len(r.programs.Started()); n != 3 {
			t.Errorf("a retired plugin was started again: %d starts", n)
		}
	})
}

// TestPoison checks that a call that ends the plugin twice is refused for a while, in its session.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("", supervisor.Spec{})
		for i, want := range []string{"The tool is read-only or idempotent", "ended during the call", "was not run, because this call ended plugin p 2 times (exit status 7)"} {
			failsWith(t, call(t.Context(), p, "crash", `{"text":"x"}`), tool.Unavailable, want)
			synctest.Wait()
			if i == 0 {
				succeeds(t, call(t.Context(), p, "where", "{}"), "pid=")
			}
		}
		// The second try ran in a program of its own, so the other program still runs.
		started := r.programs.Started()
		if len(started) != 3 || started[1].Ended() || !started[2].Ended() {
			t.Errorf("%d programs were started", len(started))
		}
		failsWith(t, call(t.Context(), p, "crash", `{"text":"y"}`), tool.Unavailable, "ended during the call")
		time.Sleep(10*time.Minute + time.Second)
		failsWith(t, call(t.Context(), p, "crash", `{"text":"x"}`), tool.Unavailable, "ended during the call")
	})
}

// TestRetire checks that a retired plugin accepts no more calls and stops after its last call.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("", supervisor.Spec{})
		held := make(chan *tool.Result)
		go func() { held <- call(t.Context(), p, "hold", `{"gate":"g"}`) }()
		<-r.programs.Gate("g").Reached
		p.Retire()
		synctest.Wait()
		if (supervisor.Set{"p": p}).Reserve("p", "") != nil || p.Users() != 1 {
			t.Errorf("a retired plugin is leased; %d leases", p.Users())
		}
		time.Sleep(time.Hour)
		if len(r.programs.Running()) != 1 {
			t.Error("the program ended before its last call")
		}
		r.programs.Gate("g").Open()
		succeeds(t, <-held, "passed")
		synctest.Wait()
		if len(r.programs.Running()) != 0 {
			t.Error("the program runs after its last call")
		}
	})
}

// TestClose checks that a plugin stops before the plugins on which it depends, and that its call has the grace.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		below := r.add("", supervisor.Spec{Name: "below"})
		above := r.add("", supervisor.Spec{Name: "above", DependsOn: []string{"below"}})
		succeeds(t, call(t.Context(), below, "where", "{}"), "pid=")
		held := make(chan *tool.Result, 1)
		go func() { held <- call(t.Context(), above, "hold", `{"gate":"g"}`) }()
		<-r.programs.Gate("g").Reached
		began, closed := time.Now(), make(chan struct{})
		go func() {
			r.Close(5 * time.Second)
			close(closed)
		}()
		time.Sleep(5*time.Second - time.Millisecond)
		if n := len(r.programs.Running()); n != 2 {
			t.Errorf("%d programs run during the grace", n)
		}
		<-closed
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closed after %s", took)
		}
		failsWith(t, <-held, tool.Unavailable, "ended during the call")
		failsWith(t, call(t.Context(), below, "where", "{}"), tool.Unavailable, "the host is closed")
		if late := r.add("", supervisor.Spec{Name: "late"}); len(r.programs.Running()) != 0 {
			t.Error("programs run after the end")
		} else {
			failsWith(t, call(t.Context(), late, "where", "{}"), tool.Unavailable, "the host is closed")
		}
	})
}

// TestHungProgram checks that a program that acknowledges no cancellation and answers no health check is replaced.
func TestHungProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		tool     string
		replaced bool
	}{"frozen": {"freeze", true}, "busy, but healthy": {"stubborn", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t)
				p := r.add("", supervisor.Spec{})
				ctx, cancel := context.WithCancel(t.Context())
				res := make(chan *tool.Result)
				go func() { res <- call(ctx, p, tc.tool, `{"gate":"g"}`) }()
				<-r.programs.Gate("g").Reached
				canceled := time.Now()
				cancel()
				if got := <-res; got.Error == nil || got.Error.Kind != tool.Canceled || time.Since(canceled) != toolrpc.CancelGrace {
					t.Errorf("after %s: %v", time.Since(canceled), got.Error)
				}
				time.Sleep(5 * time.Second) // two health checks take four seconds
				succeeds(t, call(t.Context(), p, "where", "{}"), "pid=")
				if n := len(r.programs.Started()); (n == 2) != tc.replaced {
					t.Errorf("%d programs were started", n)
				}
			})
		})
	}
}

// TestStartsThatFail checks the limit of a start, and that the reason for a failure is reported.
func TestStartsThatFail(t *testing.T) {
	for words, want := range map[string]string{
		"start=hang": "no handshake within 7s", "start=deaf": "completed the handshake but did not answer within 7s",
		"newer=yes": "needs host 99.0.0", "start=exit": "exited before its handshake: exit status 3",
	} {
		t.Run(words, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t)
				p := r.add(words, supervisor.Spec{StartTimeout: 7 * time.Second})
				began := time.Now()
				_, err := p.Describe(t.Context())
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v", err)
				}
				if took := time.Since(began); strings.Contains(want, "7s") != (took == 7*time.Second) {
					t.Errorf("the start failed after %s", took)
				}
				synctest.Wait()
				if st := p.Status(); st.Running || !strings.Contains(st.Error, want) || len(r.programs.Running()) != 0 {
					t.Errorf("%+v, %d programs", st, len(r.programs.Running()))
				}
			})
		})
	}
}

// TestOneStartForAll checks that callers share one start, and that the start goes on if one of them gives up.
func TestOneStartForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("gate=start", supervisor.Spec{})
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan *tool.Result)
		go func() { results <- call(ctx, p, "where", "{}") }()
		<-r.programs.Gate("start").Reached
		cancel()
		failsWith(t, <-results, tool.Canceled, "Plugin p was still starting.")
		for range 10 {
			go func() { results <- call(t.Context(), p, "where", "{}") }()
		}
		synctest.Wait()
		r.programs.Gate("start").Open()
		for range 10 {
			succeeds(t, <-results, "pid=")
		}
		if n := len(r.programs.Started()); n != 1 {
			t.Errorf("%d programs were started", n)
		}
	})
}

// TestCloseDuringStart checks that a host that closes does not wait for a start, and that no program remains.
func TestCloseDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		p := r.add("start=hang", supervisor.Spec{})
		res := make(chan *tool.Result)
		go func() { res <- call(t.Context(), p, "where", "{}") }()
		synctest.Wait()
		began := time.Now()
		r.Close(5 * time.Second)
		if took := time.Since(began); took != 0 || len(r.programs.Running()) != 0 {
			t.Errorf("closed after %s; %d programs run", took, len(r.programs.Running()))
		}
		failsWith(t, <-res, tool.Unavailable, "the host is closed")
	})
}
