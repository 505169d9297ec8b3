package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/testbuilder"
)

// TestClose checks that a running call has a grace, that plugins stop after those that depend on them, and that nothing
// runs afterwards.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testbuilder.NewDir(t)
		d.Write("p", "version=1.0.0")
		d.Write("above", "name=above version=2.0.0")
		d.Configure(d.Plugin("p", "") + d.Plugin("above", "field = \"above\"\ndepends_on = [\"p\"]"))
		f := open(t, d, Options{})
		succeeds(t, f.call("a", "where", "{}"), "version=1.0.0")
		pending := f.Begin(Request{Session: "b", Name: "above:hold", Arguments: []byte(`{"gate":"g"}`)}, answer.Nobody{})
		held := make(chan *tool.Result, 1)
		go func() { held <- pending.Run(context.Background()) }()
		<-d.Programs.Gate("g").Reached
		began, closed := time.Now(), make(chan error)
		go func() { closed <- f.Close() }()
		time.Sleep(closeGrace - time.Millisecond)
		if n := len(d.Programs.Running()); n != 2 {
			t.Errorf("%d programs run during the grace", n)
		}
		if err := <-closed; err != nil || time.Since(began) != closeGrace {
			t.Errorf("closed after %s, %v", time.Since(began), err)
		}
		if res := <-held; res.Error == nil {
			t.Error("the call that ran succeeded")
		}
		if n := len(d.Programs.Running()); n != 0 {
			t.Errorf("%d programs run after the end", n)
		}
		if err := f.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if res := f.call("a", "where", "{}"); res.Error == nil {
			t.Error("a closed host runs calls")
		}
	})
}

// TestCloseEndsACall checks that the grace ends with the last call.
func TestCloseEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "")
		held := f.hold(t.Context(), "a", "g")
		began, closed := time.Now(), make(chan error)
		go func() { closed <- f.Close() }()
		time.Sleep(time.Second)
		f.Programs.Gate("g").Open()
		succeeds(t, <-held, "passed")
		if err := <-closed; err != nil || time.Since(began) != time.Second {
			t.Errorf("closed after %s, %v", time.Since(began), err)
		}
	})
}

// TestDrain checks that a host that shuts down refuses new calls and waits for the running ones, but not forever.
func TestDrain(t *testing.T) {
	for name, ends := range map[string]bool{"the call ends": true, "the call does not end": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "host {\n shutdown_timeout = \"20s\"\n}\n")
				if err := errors.Join(f.Ready(), f.Usable(t.Context())); err != nil {
					t.Error(err)
				}
				held := f.hold(t.Context(), "a", "g")
				began, drained := time.Now(), make(chan struct{})
				go func() {
					f.Drain(context.Background())
					close(drained)
				}()
				synctest.Wait()
				res := f.call("b", "where", "{}")
				failsWith(t, res, tool.Unavailable, "shutting down")
				if res.Error == nil || Reason(res.Error) != ReasonShutdown || res.Error.Code != 0 || res.Error.RetryAfter != time.Second || f.Ready() == nil || f.Usable(t.Context()) == nil {
					t.Errorf("%+v", res.Error)
				}
				time.Sleep(7 * time.Second)
				want := 20 * time.Second
				if ends {
					want = 7 * time.Second
					f.Programs.Gate("g").Open()
				}
				<-drained
				if took := time.Since(began); took != want {
					t.Errorf("drained after %s", took)
				}
				f.Programs.Gate("g").Open()
				<-held
			})
		})
	}
}

// waits is a client whose person never answers.
type waits struct {
	answer.Nobody
	asked chan tool.Ask
}

// Ask implements [Client].
func (w *waits) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	w.asked <- ask
	<-ctx.Done()
	return tool.Answer{}, ctx.Err()
}

// Decided returns false.
func (*waits) Decided() bool { return false }

// TestDrainEndsAsks checks that a host that shuts down does not wait for people: a call that waits for a permission
// ends at once, and a tool that runs goes on without an answer.
func TestDrainEndsAsks(t *testing.T) {
	for name, tc := range map[string]struct{ call, want string }{
		"before the call runs": {"where", "where did not start, because the host was stopped while it waited for hooks or a person's answer. Nothing was run. Call it again when a host runs."},
		"while the tool runs":  {"ask", "nobody answered, because the host was stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "permissions {\n ask \"w\" {\n  tool = [\"where\"]\n }\n}\n")
				f.opts.Prompt = true
				client, got := &waits{asked: make(chan tool.Ask, 1)}, make(chan *tool.Result, 1)
				pending := f.Begin(Request{Session: "a", Name: tc.call, Arguments: []byte("{}")}, client)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { got <- pending.Run(ctx) }()
				<-client.asked
				began := time.Now()
				time.AfterFunc(time.Hour, cancel)
				f.Drain(context.Background())
				res := <-got
				text := res.Output
				if res.Error != nil {
					text = res.Error.Message
				}
				if took := time.Since(began); took != 0 || !strings.Contains(text, tc.want) {
					t.Errorf("drained after %s: %s", took, text)
				}
				if isBefore := tc.call == "where"; isBefore != (res.Error != nil && res.Error.Kind == tool.Canceled && errors.Is(res.Error, ErrStopped)) {
					t.Errorf("%+v", res.Error)
				}
			})
		})
	}
}

// TestYield checks that a host whose socket another host acquired waits until no more calls arrive.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "")
		began, yielded := time.Now(), make(chan struct{})
		go func() {
			f.Yield(context.Background())
			close(yielded)
		}()
		time.Sleep(900 * time.Millisecond)
		succeeds(t, f.call("a", "where", "{}"), "pid=") // it begins the pause again
		<-yielded
		if took := time.Since(began); took != 1900*time.Millisecond {
			t.Errorf("yielded after %s", took)
		}
	})
}

// TestCanceledCalls checks the ways in which a running call is canceled.
func TestCanceledCalls(t *testing.T) {
	for name, cancel := range map[string]func(f *fixture, byCaller func()){
		"by its caller": func(_ *fixture, byCaller func()) { byCaller() },
		"by a person": func(f *fixture, _ func()) {
			calls, total := f.ActiveCalls(f.local, 10)
			if len(calls) != 1 || total != 1 || calls[0].Text != `hold {"gate":"g"}` || calls[0].Session != "a" && !strings.HasPrefix(calls[0].Session, "a") {
				f.t.Errorf("%+v", calls)
			}
			if f.CancelCall(calls[0].ID+1, "alice") || !f.CancelCall(calls[0].ID, "alice") {
				f.t.Error("the call cannot be canceled")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "")
				ctx, byCaller := context.WithCancel(t.Context())
				defer byCaller()
				held := f.hold(ctx, "a", "g")
				began := time.Now()
				cancel(f, byCaller)
				if res := <-held; res.Error == nil || res.Error.Kind != tool.Canceled || time.Since(began) != 0 {
					t.Errorf("after %s: %v", time.Since(began), res.Error)
				}
				succeeds(t, f.call("a", "where", "{}"), "pid=")
				if n := len(f.Programs.Started()); n != 1 {
					t.Errorf("%d programs were started", n)
				}
				if calls, _ := f.ActiveCalls(f.local, 10); len(calls) != 0 {
					t.Errorf("%+v", calls)
				}
			})
		})
	}
}

// TestTimeout checks that a call ends at its time limit, and that the error names the limit.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "tool \"hold\" {\n timeout = \"7s\"\n}\n")
		began := time.Now()
		failsWith(t, f.call("a", "hold", `{"gate":"g"}`), tool.Timeout, "7s")
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the call ended after %s", took)
		}
	})
}

// TestUnhealthyPlugin checks that an unhealthy plugin is replaced, and that a replacement that fails is not tried again
// at once.
func TestUnhealthyPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "host {\n health_interval = \"10s\"\n}\n")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.watchHealth(ctx)
		succeeds(t, f.call("a", "where", "{}"), "pid=")
		time.Sleep(time.Minute)
		if n := len(f.Programs.Started()); n != 1 {
			t.Errorf("a healthy plugin was replaced: %d starts", n)
		}
		f.Programs.Running()[0].Sicken("hot")
		time.Sleep(11 * time.Second)
		if running := f.Programs.Running(); len(f.Programs.Started()) != 2 || len(running) != 1 || running[0].Ended() {
			t.Errorf("%d starts, %d programs run", len(f.Programs.Started()), len(running))
		}
		succeeds(t, f.call("a", "where", "{}"), "pid=")
		f.Write("p", "version=2.0.0 unhealthy=yes")
		f.Programs.Running()[0].Sicken("hot")
		time.Sleep(95 * time.Second) // the first check fails to replace it, and the next ten are left out
		if n := len(f.Programs.Started()); n != 3 {
			t.Errorf("%d starts", n)
		}
		time.Sleep(20 * time.Second)
		if n := len(f.Programs.Started()); n != 4 {
			t.Errorf("%d starts", n)
		}
		succeeds(t, f.call("a", "where", "{}"), "version=1.0.0")
	})
}

// TestHealthOfATool checks the answers to a question about one tool.
func TestHealthOfATool(t *testing.T) {
	f := begin(t, "")
	if h := f.Health(t.Context(), "echo"); h.Status != tool.Healthy {
		t.Errorf("%+v", h)
	}
	if h := f.Health(t.Context(), "ekho"); h.Status != tool.HealthNotFound {
		t.Errorf("%+v", h)
	}
	f.Programs.Running()[0].Sicken("hot")
	if h := f.Health(t.Context(), "echo"); h.Status != tool.Unhealthy || h.Message != "hot" {
		t.Errorf("%+v", h)
	}
}

// TestPing checks the errors of a ping.
func TestPing(t *testing.T) {
	f := begin(t, "")
	for field, want := range map[string]string{"q": "No field is named q", "p": ""} {
		if _, err := f.Ping(t.Context(), field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
