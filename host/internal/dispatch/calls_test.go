package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/sdk/tool"
)

// These tests show effects that span several stages. Each stage has its own test beside it.

// hookFunc is a function as a hook.
type hookFunc func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)

func (f hookFunc) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	return f(ctx, in)
}

func hookOn(event tool.HookEvent, f hookFunc) *hook.Set {
	return hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{event}, Handler: f}})
}

func unavailable() *tool.Result {
	return &tool.Result{Error: tool.Errorf(tool.Unavailable, "it is down")}
}

func untilDone(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
	<-ctx.Done()
	return tool.Failed(ctx.Err())
}

func begin(d *Dispatcher, id, session, command string) *Pending {
	s := Session{Session: state.Session{ID: session, Workspace: "/w", Cwd: "/w"}, Roots: []tool.Root{{Path: "/w", Writable: true}}}
	return d.Begin(Request{ID: id, Command: command, Session: s})
}

func TestALeaseIsReleasedHoweverTheCallEnds(t *testing.T) {
	deny := hookOn(tool.HookBefore, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
		return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "no"}, nil
	})
	for name, c := range map[string]struct {
		command string
		hooks   *hook.Set
		call    plugins
		leases  int64
	}{
		"success":        {"look", nil, ok, 1},
		"failure":        {"change", nil, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return unavailable() }, 1},
		"timeout":        {"brief", nil, untilDone, 1},
		"fallback":       {"look", nil, func(_ context.Context, c *tool.Call, _ tool.Peer) *tool.Result { return unavailable() }, 2},
		"refused":        {"danger", nil, ok, 1},
		"refused by one": {"look", deny, ok, 1},
		"unknown":        {"tool:nope", nil, ok, 0},
		"help":           {"look -h", nil, ok, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &leased{plugins: c.call}
			d := dispatcher(t, nil)
			d.Plugins, d.Hooks = l, c.hooks
			if name == "fallback" {
				d.Registry.Lookup("", "look").Limits.Fallback = "change"
			}
			run(t, d, c.command)
			if l.taken.Load() != c.leases || l.released.Load() != c.leases {
				t.Errorf("%d leases taken, %d released, want %d", l.taken.Load(), l.released.Load(), c.leases)
			}
		})
	}
}

// A fallback runs in the turn and the room of its call, which other calls must not get before it ends.
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
					case <-second: // which is the mistake
					case <-time.After(100 * time.Millisecond):
					}
					note("fallback")
				}
				return &tool.Result{Output: call.Tool}
			})
			d.Gates, d.MaxCalls = new(scheduler.Gates), 1
			d.Registry.Lookup("", "look").Limits.Fallback = "change"
			var wg sync.WaitGroup
			first := begin(d, "1", "s", "look")
			next := begin(d, "2", session, "change")
			wg.Go(func() {
				if res := first.Run(t.Context(), front{}); res.Output != "change" {
					t.Errorf("%+v", res)
				}
			})
			<-falling
			wg.Go(func() { next.Run(t.Context(), front{}) })
			wg.Wait()
			if !slices.Equal(order, []string{"fallback", "second"}) {
				t.Errorf("%v", order)
			}
		})
	}
}

// Only a tool that cannot run, or fails, has a fallback. A call that is still waiting for its session, for
// hooks or for an answer has none.
func TestNoFallbackForACallThatDidNotReachItsTool(t *testing.T) {
	var fell atomic.Bool
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		if call.Tool == "look" {
			fell.Store(true)
			return &tool.Result{}
		}
		return untilDone(ctx, call, peer)
	})
	d.Registry.Lookup("", "brief").Limits.Fallback = "look"

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	first, second := begin(d, "1", "s", "change"), begin(d, "2", "s", "brief")
	wg.Go(func() { first.Run(ctx, front{}) })
	res := second.Run(t.Context(), front{})
	if res.Error == nil || res.Error.Kind != tool.Timeout || !strings.Contains(res.Error.Message, "brief did not come to run within 50ms, because it waited for other calls") || fell.Load() {
		t.Errorf("%v, fallback %t", res.Error, fell.Load())
	}
	stop()
	wg.Wait()

	d = dispatcher(t, d.Plugins.(plugins))
	d.Registry.Lookup("", "brief").Limits.Fallback = "look"
	d.Hooks = hookOn(tool.HookBefore, func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		if in.Tool == "brief" {
			<-ctx.Done()
		}
		return nil, nil
	})
	res = run(t, d, "brief")
	if res.Error == nil || res.Error.Kind != tool.Timeout || !strings.Contains(res.Error.Message, "waited for hooks, or for a person's answer") || fell.Load() {
		t.Errorf("%v, fallback %t", res.Error, fell.Load())
	}
	// The refused call gave up its turn.
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
	d.Gates = new(scheduler.Gates)
	limits := &d.Registry.Lookup("", "look").Limits
	limits.MaxConcurrent, limits.Queue, limits.Fallback = 1, -1, "stat"
	var wg sync.WaitGroup
	first := begin(d, "1", "s", "look")
	wg.Go(func() { first.Run(t.Context(), front{}) })
	<-inside
	if res := begin(d, "2", "other", "look").Run(t.Context(), front{}); res.Output != "stat" {
		t.Errorf("%+v", res)
	}
	close(let)
	wg.Wait()
}

// Hooks see what became of every call that ran, also if its time is over or its caller has gone, and of no other call.
func TestAfterHooksOutliveTheDeadline(t *testing.T) {
	var seen []string
	d := dispatcher(t, untilDone)
	d.Hooks = hookOn(tool.HookAfter, func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		seen = append(seen, fmt.Sprint(in.Tool, " ", in.Result.Error.Kind, " ", ctx.Err()))
		if in.Tool == "brief" && !strings.Contains(in.Result.Error.Message, "brief took longer than 50ms") {
			t.Errorf("the hook sees %q", in.Result.Error.Message)
		}
		return &tool.HookAnswer{Result: &tool.Result{Output: "replaced"}}, nil
	})
	if res := run(t, d, "brief"); res.Output != "replaced" || res.Run.Attempts != 1 {
		t.Errorf("%+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Plugins = plugins(func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		cancel()
		return untilDone(ctx, call, peer)
	})
	if res := begin(d, "2", "s", "look").Run(ctx, front{}); res.Output != "replaced" {
		t.Errorf("%+v", res)
	}
	if res := run(t, d, "danger"); res.Output != "" || res.Error == nil {
		t.Errorf("%+v", res)
	}
	if !slices.Equal(seen, []string{"brief timeout <nil>", "look canceled <nil>"}) {
		t.Errorf("%q", seen)
	}
}

// audited runs calls and returns what the audit log has of them.
func audited(t *testing.T, d *Dispatcher, calls func()) []state.AuditEntry {
	t.Helper()
	d.State.Audit(&state.Auditing{Arguments: func(raw []byte) string { return string(raw) }, Text: func(s string) string { return s }, MaxBytes: 1 << 20, MaxAge: time.Hour})
	calls()
	if err := d.State.Flush(); err != nil {
		t.Fatal(err)
	}
	entries, err := d.State.AuditLog(state.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestEveryCallIsAuditedOnce(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "change" {
			res := unavailable()
			res.Run.Plugin, res.Run.PluginVersion = "p", "2"
			return res
		}
		return &tool.Result{Output: string(call.Arguments), Run: tool.Run{Plugin: "p", PluginVersion: "1"}}
	})
	d.Registry.Lookup("", "change").Limits.Fallback = "look"
	d.Policy = policy.New(policy.Rules{Rules: []policy.Rule{{Effect: policy.Allow, Name: "set", At: "f:1", Tools: []string{"look"}, Set: map[string]json.RawMessage{"text": json.RawMessage(`"set"`)}}}})
	d.Hooks = hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{tool.HookBefore}, Handler: hookFunc(func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		switch {
		case in.Tool == "brief":
			return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "not that."}, nil
		case in.Tool == "stat":
			return &tool.HookAnswer{Arguments: json.RawMessage(`{"text":"hooked"}`)}, nil
		}
		return nil, nil
	})}})
	entries := audited(t, d, func() {
		for i, command := range []string{"look --text a", "danger", "brief", "stat", "change --text b", "tool:nope x", "look -h"} {
			begin(d, fmt.Sprint(i), "s", command).Run(t.Context(), front{})
		}
	})
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s<%s %s %s %s|%s %s %v|%s %s|%s %s", e.Call, e.Parent, e.Tool, e.Layer, e.Arguments, e.Decision, e.Rule, e.Rewritten, strings.Join(e.Hooks, ","), e.Outcome, e.Plugin, e.Version))
	}
	want := []string{
		`0< look agent {"text":"set"}|allow allow "set" (f:1) [text]| success|p 1`,
		`1< danger agent {}|deny  []| permission_denied|p `,
		`2< brief agent {}|deny hook "h" []|h before_call denied: not that. permission_denied|p `,
		`3< stat agent {"text":"hooked"}|allow  []|h before_call changed success|p 1`,
		`4< change agent {"text":"b"}|allow  []| unavailable|p 2`,
		`4.fallback<4 look agent {"text":"set"}|allow allow "set" (f:1) [text]| success|p 1`,
		`5< nope agent {"command":"tool:nope x"}|  []| not_found| `,
		`6< look agent {"command":"look -h"}|  []| success| `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h, err := d.State.History("s", 100)
	if err != nil || len(h) != len(want) {
		t.Errorf("%d entries in the history, %v", len(h), err)
	}
}

func TestMetricsOfCalls(t *testing.T) {
	d := dispatcher(t, ok)
	d.Metrics = new(metrics.Metrics)
	running := -1
	d.Plugins = plugins(func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		for _, s := range d.Metrics.Tools() {
			if s.Name == "look" {
				running = s.Running
			}
		}
		return ok(ctx, call, peer)
	})
	for _, command := range []string{"look", "off", "danger", "tool:nope", "look -h"} {
		run(t, d, command)
	}
	var got []string
	for _, s := range d.Metrics.Tools() {
		got = append(got, fmt.Sprint(s.Name, " ", s.Calls, " ", s.Successes, " ", s.Running, " ", s.Execution.Count))
	}
	if want := []string{"(none) 2 1 0 0", "danger 1 0 0 0", "look 1 1 0 1", "off 1 0 0 0"}; !slices.Equal(got, want) || running != 1 {
		t.Errorf("%q, want %q; %d running", got, want, running)
	}
}

// What the sandbox refused is found in the tool's own words. The message of a timeout replaces these.
func TestDenialsOfACallThatTimedOut(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "brief" {
			<-ctx.Done()
			return &tool.Result{Error: tool.Errorf(tool.Timeout, "words")}
		}
		return &tool.Result{Output: "words\n"}
	})
	d.Denied = func(plugin string, _ []tool.Root, since time.Time, printed string) []string {
		if plugin != "p" || strings.TrimSpace(printed) != "words" || time.Since(since) > time.Hour {
			t.Errorf("%s since %s: %q", plugin, since, printed)
		}
		return []string{"a", "b", "c", "d", "e", "f", "g"}
	}
	if res := run(t, d, "look"); res.Output != "words\n[a.]\n[b.]\n[c.]\n[d.]\n[e.]\n[The sandbox refused 2 more things.]" {
		t.Errorf("%q", res.Output)
	}
	res := run(t, d, "brief")
	if all, ok := res.Metadata["denied"].([]string); !ok || len(all) != 7 || strings.Contains(res.Error.Message, "[a.]") || !strings.HasPrefix(res.Error.Message, "brief took longer") {
		t.Errorf("%+v", res)
	}
}

// collect returns a tracer, and a function that closes it and returns its spans by name.
func collect(t *testing.T) (*trace.Tracer, func() map[string]span) {
	t.Helper()
	var mu sync.Mutex
	by := make(map[string]span)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
			by[s.Name] = s
		}
	}))
	tracer := trace.New(trace.Config{URL: server.URL, Sample: 1}, nil)
	return tracer, func() map[string]span {
		tracer.Close()
		server.Close()
		return by
	}
}

type span struct {
	Name, SpanID, ParentSpanID         string
	Kind                               int
	StartTimeUnixNano, EndTimeUnixNano string
	Status                             struct{ Message string }
}

func TestSpansOfCalls(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			return unavailable()
		}
		return &tool.Result{Output: call.Trace[trace.Header]}
	})
	var spans func() map[string]span
	d.Tracer, spans = collect(t)
	d.Registry.Lookup("", "look").Limits.Fallback = "change"
	res := run(t, d, "look")
	by := spans()
	root := by["call look"]
	for name, want := range map[string]struct {
		parent string
		kind   int
		status string
	}{
		"call look": {"", 2, "unavailable"}, "run look": {root.SpanID, 3, "unavailable"}, "permit": {by["call change"].SpanID, 1, ""}, "wait": {by["call change"].SpanID, 1, ""},
		"call change": {root.SpanID, 2, ""}, "run change": {by["call change"].SpanID, 3, ""},
	} {
		if s, ok := by[name]; !ok || s.ParentSpanID != want.parent || s.Kind != want.kind || s.Status.Message != want.status {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(by) != 6 || !strings.Contains(res.Output, by["run change"].SpanID) {
		t.Errorf("%d spans, the plugin has %q", len(by), res.Output)
	}
	if p, w, r := by["permit"], by["wait"], by["run change"]; p.EndTimeUnixNano > w.StartTimeUnixNano || w.EndTimeUnixNano > r.StartTimeUnixNano {
		t.Errorf("spans overlap: %+v %+v %+v", p, w, r)
	}

	d = dispatcher(t, ok)
	d.Tracer, spans = collect(t)
	run(t, d, "danger")
	run(t, d, "off")
	if by := spans(); len(by) != 3 || by["call danger"].Status.Message != "permission_denied" || by["permit"].EndTimeUnixNano == "" || by["call"].Status.Message != "permission_denied" {
		t.Errorf("%+v", by)
	}
}

// granted is a [Commands] whose handler a test calls.
type granted struct {
	handle  shim.Handler
	revoked func()
}

func (*granted) Available() bool { return true }

func (g *granted) Grant(_ context.Context, handle shim.Handler) (*tool.Commands, func()) {
	g.handle = handle
	return &tool.Commands{Token: "t"}, g.revoked
}

func TestCallsOfCommands(t *testing.T) {
	var out, errs strings.Builder
	var order []string
	g := &granted{revoked: func() { order = append(order, "revoked") }}
	d := dispatcher(t, nil)
	d.Commands = g
	d.Registry.Lookup("", "change").Commands = true
	l := &leased{plugins: func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			order = append(order, call.ID+" in "+call.Cwd)
			return &tool.Result{Output: "looked", SessionState: []byte("lost"), Cwd: "/w/lost"}
		}
		for _, args := range [][]string{{"--text", "x"}, {"--nope"}} {
			code := g.handle(ctx, wire.Request{Name: "tool:look", Cwd: "/w/sub", Args: args}, shim.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
			order = append(order, fmt.Sprint("status ", code))
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		for range maxChildren + 1 { // a slot may be free or not: none is kept
			g.handle(gone, wire.Request{Name: "tool:nope", Cwd: "/w"}, shim.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: new(strings.Builder)})
		}
		return &tool.Result{Output: call.Commands.Token, SessionState: []byte("kept")}
	}}
	d.Plugins = l
	d.Hooks = hookOn(tool.HookAfter, func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		order = append(order, "after "+in.Tool)
		return nil, nil
	})
	entries := audited(t, d, func() {
		if res := run(t, d, "change"); res.Output != "t" {
			t.Errorf("%+v", res)
		}
	})
	if want := []string{"1.1 in /w/sub", "after look", "status 0", "status 2", "after change", "revoked"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if out.String() != "looked\n" || !strings.HasPrefix(errs.String(), "tool:look: ") {
		t.Errorf("%q %q", out.String(), errs.String())
	}
	if e := entries[0]; e.Call != "1.1" || e.Parent != "1" || e.Tool != "look" {
		t.Errorf("%+v", e)
	}
	if s, err := d.State.PluginState("s", "p"); err != nil || string(s) != "kept" {
		t.Errorf("%q %v", s, err)
	}
	if l.taken.Load() != l.released.Load() {
		t.Errorf("%d leases taken, %d released", l.taken.Load(), l.released.Load())
	}
}

func TestCachedResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		n++
		time.Sleep(slow)
		return &tool.Result{Output: "ok", Run: tool.Run{Plugin: "p", PluginVersion: "1"}}
	})
	d.Metrics, d.Adaptive = new(metrics.Metrics), new(Adaptive)
	var last *tool.Result
	for range often + 2 {
		last = run(t, d, "stat --text x")
	}
	if n != often || !last.Run.CacheHit || last.Run.Attempts != 0 || last.Run.Plugin != "p" || last.Output != "ok" {
		t.Errorf("%d calls, %+v", n, last)
	}
	if a := d.Adapted("stat"); a == nil || a.Limit == 0 {
		t.Errorf("%+v", a)
	}
}

// A call belongs to the generation whose plugin it leased.
func TestACallGoesToTheLatestGeneration(t *testing.T) {
	now := dispatcher(t, ok)
	old := dispatcher(t, nil)
	old.Plugins = replaced{}
	old.Latest = func() *Dispatcher { return now }
	if res := run(t, old, "look"); res.Output != "ok" {
		t.Errorf("%+v", res)
	}
	if err := now.State.Flush(); err != nil {
		t.Fatal(err)
	}
	if h, err := now.State.History("s", 1); err != nil || len(h) != 1 {
		t.Errorf("%v %v", h, err)
	}
}

type replaced struct{}

func (replaced) Reserve(string) Place { return nil }

func TestJudgeRunsNothing(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	for command, want := range map[string]policy.Effect{"look": policy.Allow, "danger": policy.Deny, "off": policy.Deny, "look -h": policy.Allow} {
		if got := d.Judge(Request{Command: command, Session: session("s")}); got.Effect != want && !(command == "danger" && got.Effect == policy.Ask) {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if err := d.State.Flush(); err != nil {
		t.Fatal(err)
	}
	if h, err := d.State.History("s", 1); err != nil || len(h) > 0 || l.taken.Load() > 0 {
		t.Errorf("%v %v, %d leases", h, err, l.taken.Load())
	}
}
