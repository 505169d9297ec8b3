// Package dispatch is the life of a call: what is meant, which tool it is, whether
// it may run, when, and where. Every front goes through it and nothing goes around it.
package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Shell is the tool that native commands go to.
const Shell = "bash"

// Request is one call as a front makes it: a command string, or a name with arguments.
type Request struct {
	ID        string
	MessageID string
	Command   string
	Name      string
	Arguments json.RawMessage
	// Session, with its roots; see [Session].
	Session Session
	// Trace is what the call is a part of; the zero value: nothing.
	Trace trace.Context
}

// Session is where a call is at home.
type Session struct {
	state.Session
	Roots []tool.Root
}

// Front is whoever made the call, while it runs.
type Front interface {
	Progress(title string, metadata map[string]any)
	Output(stream tool.Stream, chunk []byte)
	Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error)
}

// Plugins serve calls.
type Plugins interface {
	// Reserve keeps a plugin as it is now for one call; nil: it has been replaced, which
	// Dispatcher.Latest knows of.
	Reserve(plugin string) Place
}

// Place is a call's place on a plugin.
type Place interface {
	Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result
	// Release is called once, when the call needs the plugin no more.
	Release()
	// Version tells the plugin from what it replaced and what replaces it; it is comparable.
	Version() any
}

// Dispatcher joins the stages. It is safe for concurrent use.
type Dispatcher struct {
	Registry  *registry.Registry
	Policy    *policy.Policy
	Scheduler *scheduler.Scheduler
	Plugins   Plugins
	// Gates bound what runs at once, of all sessions: MaxCalls together (0: any number), and
	// what the entries say of each tool. nil: nothing is bounded.
	Gates    *scheduler.Gates
	MaxCalls int
	// Commands of calls may call tools; nil: they may not.
	Commands Commands
	State    *state.DB
	// Metrics count the calls; nil: nobody does.
	Metrics *metrics.Metrics
	// Hooks take part in calls; nil: there are none.
	Hooks *hook.Set
	// Adaptive sets limits by how calls went, and answers some from earlier results; nil: nothing does.
	Adaptive *Adaptive
	// Tracer records what calls do; nil: nobody does.
	Tracer *trace.Tracer
	// Timeout of calls that nobody gave one.
	Timeout time.Duration
	// Latest gives the dispatcher that has replaced this one, or this one. nil: none will.
	Latest func() *Dispatcher
	// Unloaded says which plugins could not be loaded, for a name that is not found. nil: nothing.
	Unloaded func(name string) string
	// Denied says what the sandbox of a plugin refused from a moment on, as far as it knows or
	// what was printed tells. nil: nothing.
	Denied func(plugin string, roots []tool.Root, since time.Time, printed string) []string
}

// Pending is a call that has its place in the session's line.
type Pending struct {
	d       *Dispatcher
	req     Request
	command *router.Command
	entry   *registry.Entry
	args    map[string]json.RawMessage
	place   Place             // nil when there is an early answer
	ticket  *scheduler.Ticket // nil: it is nested
	nesting int               // how many calls it runs inside of
	nested  atomic.Int64      // calls that its commands have made
	started time.Time
	early   *tool.Result // the answer, when nothing has to run
	decided *policy.Decision
	parent  string          // the call whose command made this one; empty: none
	given   json.RawMessage // the arguments, when they were bound
	waited  bool            // other calls kept it from running at once
	hooked  []hook.Outcome  // what hooks did to it
	timeout time.Duration   // what it may take
	span    *trace.Span     // of the whole call; nil: it is not recorded
	at      trace.Context   // the call's place in a trace
	within  trace.Context   // that of what the tool does
}

// Begin takes a request up to its place in the line, without waiting. Run must be
// called on what it gives. The calls of a session run in the order of Begin.
func (d *Dispatcher) Begin(req Request) *Pending {
	p := &Pending{d: d, req: req, started: time.Now()}
	p.trace()
	p.command = d.route(req) // 1. what is meant
	p.settle()               // 2. which tool, with which arguments
	if p.early == nil {
		p.ticket = d.Scheduler.Enqueue(req.Session.ID, p.entry.Definition.Traits.ConcurrencySafe)
	}
	return p
}

// Native reports whether the call goes to the shell as it stands.
func (p *Pending) Native() bool { return p.command.Layer == router.Native }

// ReadOnly reports whether the call changes nothing.
func (p *Pending) ReadOnly() bool {
	return p.entry == nil || p.entry.Definition.Traits.ReadOnly
}

// Run carries the call out. It returns when the call has ended, always with a result.
func (p *Pending) Run(ctx context.Context, front Front) *tool.Result {
	if p.early != nil {
		return p.finish(p.early)
	}
	defer p.place.Release()
	whole := ctx
	p.timeout = p.d.configured(p.entry)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	call := p.call()
	p.given = call.Arguments
	permitting := p.step("permit")
	err := p.permit(ctx, call, front) // 3. whether it may
	permitting.End()
	if err != nil {
		p.ticket.Abandon()
		if ctx.Err() == nil {
			return p.finish(refused(err))
		}
		return p.finish(p.gaveUp(ctx, err, "hooks, or for a person's answer"))
	}
	told := front
	if p.d.Hooks.For(tool.HookAfter, p.entry.FullName()) != nil {
		told = withheld{front}
	}
	peer := p.peer(call, told)
	p.waited = p.ticket.Waits()
	waiting := p.step("wait")
	done, err := p.ticket.Wait(ctx) // 4. when
	if err != nil {
		waiting.End()
		return p.finish(p.gaveUp(ctx, err, "other calls"))
	}
	defer done()
	leave, err := p.adapt(ctx)
	waiting.End()
	if err != nil {
		return p.instead(whole, front, p.finish(p.gaveUp(ctx, err, "other calls")))
	}
	defer leave(nil)
	if err := p.recheck(call); err != nil {
		return p.finish(refused(err))
	}
	if err := p.d.inform(call, p.entry); err != nil {
		return p.finish(refused(err))
	}
	defer p.lend(ctx, call, told)()
	queued := time.Since(p.started)
	ctx, cancel = p.narrow(ctx)
	defer cancel()
	p.entry.Life.Begin()
	defer p.entry.Life.End()
	defer p.d.Metrics.Tool(p.entry.FullName()).Begin()()
	running := p.enter(call)
	res := p.answer(ctx, call, peer) // 5. where
	leaveSpan(running, res)
	leave(res)
	res.Run.QueueTime, res.Run.ExecutionTime = queued, time.Since(p.started)-queued
	p.remember(res)
	p.tellDenied(res, p.started.Add(queued))
	return p.instead(whole, front, p.finish(p.after(whole, call, p.overdue(ctx, res))))
}

// route is step 1.
func (d *Dispatcher) route(req Request) *router.Command {
	if req.Name != "" {
		return router.Function(req.Name, req.Arguments, d.Registry)
	}
	return router.Parse(req.Command, d.Registry, d.options(req.Session.Cwd))
}

// settle is step 2. From then on the call belongs to the plugin as it is now, whatever
// replaces it.
func (p *Pending) settle() {
	for {
		if p.entry, p.args, p.early = p.d.bind(p); p.early != nil {
			return
		}
		if p.place = p.d.Plugins.Reserve(p.entry.Plugin); p.place != nil {
			return
		}
		p.d = p.d.latest()
	}
}

func (d *Dispatcher) latest() *Dispatcher {
	if d.Latest == nil {
		return d
	}
	return d.Latest()
}

// bind finds the tool and its arguments. Its result is set when the answer is already known: help, or an error.
func (d *Dispatcher) bind(p *Pending) (*registry.Entry, map[string]json.RawMessage, *tool.Result) {
	c := p.command
	switch {
	case c.Error != nil:
		return nil, nil, d.notFound(c)
	case c.IsHelp:
		return nil, nil, help.Result(d.Registry, c)
	case c.Layer == router.Native && c.Simple && d.unloaded(c) != nil:
		return nil, nil, refused(d.unloaded(c))
	}
	namespace, name := c.Namespace, c.Name
	if c.Layer == router.Native {
		name = Shell
	}
	e, err := d.Registry.Enabled(namespace, name)
	if err != nil {
		if c.Layer == router.Native {
			err = tool.Errorf(tool.NotFound, "%q is no tool, and there is no shell to run it: enable the plugin that serves the tool %s.", firstWord(c), Shell)
		}
		return nil, nil, refused(err)
	}
	if c.Layer == router.Native {
		return d.bindShell(e, c)
	}
	return e, c.Arguments, nil
}

// bindShell binds a native command to the shell tool's own schema.
func (d *Dispatcher) bindShell(e *registry.Entry, c *router.Command) (*registry.Entry, map[string]json.RawMessage, *tool.Result) {
	args, bad := e.Schema().Check(c.Kwargs)
	if len(bad) > 0 {
		return e, nil, refused(tool.Errorf(tool.Internal, "The tool %s does not take a command: %s. Another plugin must serve the shell.", Shell, bad[0].Message))
	}
	return e, args, nil
}

// Explain says what a command means, seen from a directory, without running it.
func (d *Dispatcher) Explain(command, cwd string) *router.Command {
	c := router.Parse(command, d.Registry, d.options(cwd))
	if c.Error != nil || c.IsHelp || c.Layer == router.Native {
		return c
	}
	if _, err := d.Registry.Enabled(c.Namespace, c.Name); err != nil {
		c.Error = tool.AsError(err).From(tool.SourceHost)
	}
	return c
}
