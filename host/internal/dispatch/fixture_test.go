package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

// plugins is a function that handles the calls of all plugins in a test.
type plugins func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result

func (f plugins) Reserve(string, string) call.Lease { return f }

func (plugins) Confinement(string) call.Confinement { return call.Unconfined{} }

func (f plugins) Lease(c *Call) bool {
	c.Identity.Lease = f
	return true
}

func (plugins) Complete(s call.Session, _ string, _ []byte) call.Session { return s }

func (plugins) MayCall(string, string) bool { return false }

func (plugins) WhyUnloaded(string) string { return "" }

// sandboxed are plugins with a sandbox.
type sandboxed struct {
	Plugins
	sandbox *sandbox
}

func (s sandboxed) Confinement(string) call.Confinement { return s.sandbox }

// sandbox is a confinement whose effects a test sets.
type sandbox struct {
	call.Unconfined
	watch    func(roots []tool.Root) (func() []string, error)
	denied   func(since time.Time, printed string) []string
	exceeded func(printed string, failed bool) []string
	weaker   string
}

func (s *sandbox) Watch(owner string, roots []tool.Root) (func() []string, error) {
	if s.watch == nil {
		return s.Unconfined.Watch(owner, roots)
	}
	return s.watch(roots)
}

func (s *sandbox) Denied(_ []tool.Root, since time.Time, printed string) []string {
	if s.denied == nil {
		return nil
	}
	return s.denied(since, printed)
}

func (s *sandbox) Exceeded(_ []tool.Root, printed string, failed bool) []string {
	if s.exceeded == nil {
		return nil
	}
	return s.exceeded(printed, failed)
}

func (s *sandbox) Weaker([]tool.Root) string { return s.weaker }

func (f plugins) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	return f(ctx, call, peer)
}

func (plugins) Release() {}

func (plugins) Version() any { return nil }

// later is a host whose dispatcher was replaced.
type later struct{ now *rig }

func (l later) Latest() *Dispatcher { return l.now.dispatcher() }

func (later) CommandsCallTools() bool { return false }

func (later) Preview(call.Session) (call.Preview, error) { return nil, errors.New("no preview") }

// rig makes dispatchers from parts that a test can change. It is also the host of these dispatchers.
type rig struct {
	Core
	Limits   stage.Limits
	Commands Commands
	Results  stage.ResultStores
	Hooks    Stage
	// More are stages of further features.
	More []Stage
}

func (r *rig) Latest() *Dispatcher { return r.dispatcher() }

func (r *rig) CommandsCallTools() bool { return r.Commands != nil && r.Commands.Available() }

func (*rig) Preview(call.Session) (call.Preview, error) { return nil, errors.New("no preview") }

// dispatcher returns a dispatcher of the current parts.
func (r *rig) dispatcher() *Dispatcher {
	core := r.Core
	if core.Host == nil {
		core.Host = r
	}
	core.Turns.Limits = &r.Limits
	permissions := r.permissions()
	stages := []Stage{
		(&Fallbacks{Host: core.Host, Results: r.Results}).Stage(),
		(&Records{Registry: r.Registry, State: r.State, Metrics: r.Limits.Metrics}).Stage(),
		stage.Bounds(r.Results),
		r.Hooks,
		permissions.Authorize(),
		r.Limits.Stage(),
		permissions.Reauthorize(),
		r.childCalls().Stage(),
		r.Limits.Timeouts(),
		(&Sessions{State: r.State}).Stage(),
		stage.Measure(r.Tracer, r.Limits.Metrics),
		stage.Cache(r.Limits.Adaptive, r.Limits.Metrics),
		stage.Retry(),
	}
	return New(core, append(stages, r.More...)...)
}

func (r *rig) permissions() *Permissions {
	return &Permissions{Policy: r.Policy, State: r.State, Host: r}
}

func (r *rig) childCalls() *ChildCalls {
	return &ChildCalls{Host: r, Plugins: r.Plugins, Commands: r.Commands}
}

// Begin queues and begins a call of the current dispatcher.
func (r *rig) Begin(req call.Request) *Pending {
	return r.dispatcher().Begin(req, r.Turns.Scheduler.Enqueue(req.Session.ID))
}

// stored are results with one store for all owners.
type stored struct{ store *spill.Store }

func (s stored) Store(string) *spill.Store { return s.store }

// client is the client of a test. Nobody can be asked.
type client struct{ answer.Nobody }

func dispatcher(t testing.TB, run plugins) *rig {
	t.Helper()
	db, err := state.OpenInMemory(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r := registry.New()
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"path":{"type":"string","x-toolhost-path":"write"}}}`)
	define := func(name string, traits tool.Traits, timeout time.Duration) tool.Definition {
		return tool.Definition{Name: name, Description: "d", Input: schema, Traits: traits, DefaultTimeout: timeout}
	}
	err = r.Add("p", "", &tool.Description{Name: "p", Tools: []tool.Definition{
		define("look", tool.Traits{ReadOnly: true, ConcurrencySafe: true}, 0), define("change", tool.Traits{}, 0), define("danger", tool.Traits{Dangerous: true}, 0),
		define("brief", tool.Traits{}, 50*time.Millisecond), define("off", tool.Traits{Disabled: true}, 0),
		define("stat", tool.Traits{ReadOnly: true, ConcurrencySafe: true, Cacheable: true}, 0),
	}}, false, func(string) registry.Settings { return registry.Settings{} })
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		Core: Core{
			Registry: r, Policy: policy.New(policy.Rules{}), Plugins: run, State: db,
			Turns: Turns{Scheduler: scheduler.New(4), Log: slog.New(slog.DiscardHandler)},
		},
		Limits: stage.Limits{Timeout: time.Minute},
	}
}

func session(id string) call.Session {
	return call.Session{Session: state.Session{ID: id, Workspace: "/w", Cwd: "/w"}, Principal: principal.LocalUser(), Roots: []tool.Root{{Path: "/w", Writable: true}}}
}

func run(t *testing.T, d *rig, command string) *tool.Result {
	t.Helper()
	return d.Begin(call.Request{ID: "1", Command: command, Session: session("s")}).Run(t.Context(), client{})
}

func ok(context.Context, *tool.Call, tool.Peer) *tool.Result {
	return &tool.Result{Output: "ok", Run: tool.Run{Plugin: "p"}}
}

// leased counts the active leases of calls.
type leased struct {
	plugins
	taken, released atomic.Int64
}

func (l *leased) Lease(c *Call) bool {
	l.taken.Add(1)
	c.Identity.Lease = l
	return true
}

func (l *leased) Release() { l.released.Add(1) }

func unavailable() *tool.Result {
	return &tool.Result{Error: tool.Errorf(tool.Unavailable, "it is down")}
}

func untilDone(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
	<-ctx.Done()
	return tool.Failed(ctx.Err())
}

func begin(d *rig, id, of, command string) *Pending {
	return d.Begin(call.Request{ID: id, Command: command, Session: session(of)})
}

// prepared returns a call that is ready for the stages.
func prepared(t *testing.T, d *rig, command string) *Call {
	t.Helper()
	p := begin(d, "1", "s", command)
	c := &p.call
	if c.Identity.Answer != nil {
		t.Fatal(c.Identity.Answer.Error)
	}
	c.Client, c.Shown = client{}, client{}
	d.dispatcher().address(c)
	t.Cleanup(c.Release)
	return c
}

// asked is a client that always returns the same answer and counts the questions.
type asked struct {
	client
	answer tool.Answer
	n      int
}

func (a *asked) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	a.n++
	return a.answer, nil
}

func must(t *testing.T, res *tool.Result, kind tool.Kind, text string) {
	t.Helper()
	if res == nil || res.Error == nil || res.Error.Kind != kind || !strings.Contains(res.Error.Message, text) {
		t.Errorf("%+v, want an error of kind %s with %q", res, kind, text)
	}
}

// noNext returns a handler that fails the test if it is called. The stage under test must end the call without calling
// the next handler.
func noNext(t *testing.T) Handler {
	return func(context.Context, *Call) *tool.Result {
		t.Error("the call went on")
		return new(tool.Result)
	}
}
