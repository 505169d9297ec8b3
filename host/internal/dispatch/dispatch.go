// Package dispatch runs calls of tools.
//
// [Dispatcher.Begin] resolves and queues a call. [Pending.Run] waits for the call's turn in its session, loads the
// current session, and runs the call through the stages. Package generation lists the stages in order. All frontends
// use this package, so that no call can skip a stage.
package dispatch

import (
	"context"
	"slices"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/router"
)

// Handler runs the remaining stages of a call.
type Handler = stage.Handler

// Stage is a named step of each call. The documentation of a stage is in the file of the same name, here or in package
// stage.
type Stage = stage.Stage

// Call is a call that runs through the stages.
type Call = call.Call

// Plugins are the plugins of a generation.
type Plugins interface {
	// Complete returns a stored session with the roots and the temporary directory that it has in the generation. The
	// texts are those of the request.
	Complete(s call.Session, command string, arguments []byte) call.Session
	// Lease leases the current instance of the plugin of a call. If a rollout chose the new version for the session of
	// the call, it leases this version, too. It returns false if a reload replaced the plugin. The dispatcher then
	// tries again with the dispatcher from Host.Latest.
	Lease(c *Call) bool
	// Reserve leases the current instance of a plugin. The owner is the principal of the call. Each owner has separate
	// processes. Reserve returns nil if a reload replaced the plugin.
	Reserve(plugin, owner string) call.Lease
	// Confinement returns the sandbox of a plugin.
	Confinement(plugin string) call.Confinement
	// MayCall reports whether the code of a plugin is allowed to call a tool.
	MayCall(plugin, name string) bool
	// WhyUnloaded returns the reason why a plugin could not be loaded, or "" for a loaded plugin.
	WhyUnloaded(name string) string
}

// Host is the process that runs one generation after the other.
type Host interface {
	// Latest returns the dispatcher of the current generation.
	Latest() *Dispatcher
	// CommandsCallTools reports whether commands can call tools on this host.
	CommandsCallTools() bool
	// Preview begins the preview of a call in a session, for permission requests that show a diff.
	Preview(s call.Session) (call.Preview, error)
}

// Core is what a dispatcher needs beside its stages.
type Core struct {
	Registry *registry.Registry
	Policy   *policy.Policy
	Plugins  Plugins
	State    *state.DB
	Host     Host
	Turns    Turns
	// Tracer records spans. A nil Tracer disables tracing.
	Tracer *telemetry.Tracer
	// Finder is the index for searches of tools. A nil Finder permits no search.
	Finder *help.Index
	// Pulse is the time without events after which a client receives a progress notification. Zero means
	// [DefaultPulse].
	Pulse time.Duration
}

// Dispatcher runs the calls of one generation. It is safe for concurrent use.
type Dispatcher struct {
	registry *registry.Registry
	policy   *policy.Policy
	plugins  Plugins
	state    *state.DB
	host     Host
	turns    Turns
	tracer   *telemetry.Tracer
	pulse    time.Duration
	run      Handler // runs all stages of a call
	answer   Handler // handles calls without a plugin
}

// New returns a dispatcher whose calls run through the stages, from the first and outermost to the last. It leaves out
// stages with the zero value, which are stages of features that are off.
func New(core Core, stages ...Stage) *Dispatcher {
	d := &Dispatcher{
		registry: core.Registry, policy: core.Policy, plugins: core.Plugins, state: core.State, host: core.Host,
		turns:  core.Turns,
		tracer: core.Tracer, pulse: core.Pulse,
	}
	stages = slices.DeleteFunc(slices.Clone(stages), func(s Stage) bool { return s.Wrap == nil })
	d.run = build(d.execute, stages, core.Tracer)
	d.answer = build(d.reply(core.Finder), slices.DeleteFunc(stages, func(s Stage) bool { return !s.Always }),
		core.Tracer)
	return d
}

// build returns a handler that runs all stages and then calls last. A nil tracer disables tracing.
func build(last Handler, stages []Stage, tracer *telemetry.Tracer) Handler {
	for _, s := range slices.Backward(stages) {
		last = s.Wrap(last)
		if tracer != nil {
			last = traced(tracer, phases[s.Name], last)
		}
	}
	return last
}

// phases maps the name of a stage to the name of the span in which the stage runs. All of these spans end before the
// tool runs. A span lasts until the first stage with a different span.
var phases = map[string]string{"hooks": "permit", "authorize": "permit", "limit": "wait"}

// traced returns a handler that begins the span of a phase and then calls next.
func traced(tracer *telemetry.Tracer, phase string, next Handler) Handler {
	return func(ctx context.Context, c *Call) *tool.Result {
		c.EnterPhase(tracer, phase)
		defer c.EnterPhase(tracer, "") // end the span if the stage ends the call
		return next(ctx, c)
	}
}

// execute calls the leased plugin. It is the innermost handler.
func (d *Dispatcher) execute(ctx context.Context, c *Call) *tool.Result {
	if l := c.Request.Session.Ledger; l != nil {
		if err := l.Check(); err != nil {
			return call.Refused(err)
		}
	}
	return c.Identity.Lease.Call(ctx, c.Decision.Sent, c.Peer(d.policy, d.state))
}

// Adapted returns the limits that the adaptive mode learned for a tool. It returns nil if the mode is disabled or
// ignores the tool.
func (d *Dispatcher) Adapted(name string) *telemetry.Adaptive {
	if e := d.registry.Find(name); e != nil {
		return d.turns.Limits.Learned(e)
	}
	return nil
}

// Reserve leases the current instance of a plugin; see [Plugins].
func (d *Dispatcher) Reserve(plugin, owner string) call.Lease {
	return d.plugins.Reserve(plugin, owner)
}

// Explain parses a command in the directory cwd without running it.
func (d *Dispatcher) Explain(command, cwd string) *router.Command {
	c := router.Parse(command, d.registry, d.options(cwd))
	if c.Error != nil || c.IsHelp || c.Layer == router.Native {
		return c
	}
	if _, err := d.registry.Enabled(c.Namespace, c.Name); err != nil {
		c.Error = tool.AsError(err).From(tool.SourceHost)
	}
	return c
}

// Judge returns the policy's decision on a request without asking a person and without running the call. Judge makes no
// use of the exec gate, so the decision does not depend on the machine. If remembered is true, earlier answers count,
// too.
func (d *Dispatcher) Judge(req call.Request, remembered bool) *policy.Decision {
	p := &Pending{d: d, call: Call{Request: req}}
	c := &p.call
	c.Identity.Command = p.parse()
	d.bind(c)
	if refused := refuse(c); refused != nil {
		c.Identity.Answer = refused
	}
	if res := c.Identity.Answer; res != nil {
		out := &policy.Decision{Effect: policy.Allow, Reason: "nothing would run"}
		if res.Error != nil {
			out.Effect, out.Reason = policy.Deny, res.Error.Message
		}
		return out
	}
	d.address(c)
	q := question(c, d.policy, d.state)
	if !remembered {
		q.Answers = nil
	}
	return d.policy.Expect(q)
}
