// Package dispatch runs calls of tools.
//
// [Dispatcher.Begin] resolves and queues a call. [Pending.Run] waits for the call's turn in its session, loads the
// current session, and runs the call through the stages. The method stages of Dispatcher lists the stages in order. All
// frontends use this package, so that no call can skip a stage.
package dispatch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/find"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/sessionlock"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/stage/bounds"
	"toolhost.dev/host/internal/stage/programs"
	"toolhost.dev/host/internal/stage/quotas"
	"toolhost.dev/host/internal/stage/runs"
	"toolhost.dev/host/internal/stage/safekeeping"
	"toolhost.dev/host/internal/stage/space"
	"toolhost.dev/host/internal/stage/taping"
	"toolhost.dev/host/internal/stage/versions"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Handler runs the remaining stages of a call.
type Handler = stage.Handler

// Stage is a named step of each call. The documentation of a stage is in the file of the same name, or in a package
// below the package stage.
type Stage = stage.Stage

// Call is a call that runs through the stages.
type Call = call.Call

// Plugins are the plugins of a generation.
type Plugins interface {
	// Reserve leases the current instance of a plugin to one call. The owner is the principal of the call. Each owner
	// has separate processes. Reserve returns nil if a reload replaced the plugin. The dispatcher then tries again with
	// the dispatcher from Host.Latest.
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
	// Preview begins the preview of a call in a session, for permission requests that show a diff.
	Preview(s call.Session) (call.Preview, error)
}

// Dispatcher runs the calls of one generation. It is safe for concurrent use. Its fields must not change after the first
// call.
type Dispatcher struct {
	Registry  *registry.Registry
	Policy    *policy.Policy
	Scheduler *scheduler.Scheduler
	Plugins   Plugins
	// Gates limits the number of concurrent calls in all sessions. MaxCalls limits the total number of calls; 0 means no
	// limit. The registry entry of a tool limits the calls of that tool. A nil Gates disables all limits.
	Gates    *scheduler.Gates
	MaxCalls int
	// Quota counts the calls of fields and principals, and Quotas contains the limits for these calls. A nil Quota
	// disables the limits.
	Quota  *quota.Set
	Quotas quota.Rules
	// Commands permits commands to call tools. A nil Commands forbids these calls.
	Commands Commands
	State    *state.DB
	// Locks coordinates sessions that several processes use. A nil Locks means that no other process uses the sessions.
	Locks *sessionlock.Locks
	// Metrics counts calls. A nil Metrics disables the statistics.
	Metrics *metrics.Metrics
	// Rollouts contains the rollouts of new versions of plugins. A nil Rollouts means none.
	Rollouts *rollout.Set
	// Recorder records the calls of sessions on tapes. A nil Recorder records nothing.
	Recorder *recorder.Recorder
	// Records decides which recordings begin. A nil Records begins no recording.
	Records taping.Plans
	// Hooks contains the hooks that run before and after calls. A nil Hooks means no hooks.
	Hooks *hook.Set
	// Adaptive learns limits from calls and caches results. A nil Adaptive disables both.
	Adaptive *adaptive.Learned
	// Tracer records spans. A nil Tracer disables tracing.
	Tracer *trace.Tracer
	// Timeout is the timeout for calls of tools without a configured timeout.
	Timeout time.Duration
	// MaxWait limits how long a call waits for other calls. Zero means [DefaultMaxWait].
	MaxWait time.Duration
	// Pulse is the time without events after which a client receives a progress notification. Zero means
	// [pulse.Default].
	Pulse time.Duration
	// Host has the dispatchers of all generations. A nil Host means that the dispatcher is never replaced, and that no
	// permission request shows a diff.
	Host Host
	// Finder is the index for searches of tools. A nil Finder permits no search.
	Finder *find.Index

	// Results has the files with long results. A nil Results means that results have no limits.
	Results bounds.Stores

	// Log gets warnings. A nil Log discards them.
	Log *slog.Logger

	once   sync.Once
	run    Handler // runs all stages of a call
	answer Handler // handles calls without a plugin
}

// stages returns the stages of a call from the outermost to the innermost. It omits the stages of disabled features.
func (d *Dispatcher) stages() []Stage {
	executed := programs.Programs{Policy: d.Policy, State: d.State, Since: func(c *Call) time.Time { return d.question(c).Since }}
	taped := taping.Taping{Recorder: d.Recorder, State: d.State, Plans: d.Records}
	both := versions.Versions{Rollouts: d.Rollouts, State: d.State, Timeout: d.Timeout, Reserve: func(plugin, owner string) call.Lease {
		return d.latest().Plugins.Reserve(plugin, owner)
	}}
	return compact(
		d.fallback(),
		d.record(),
		bounds.Stage(d.Results),
		d.hooks(),
		d.authorize(),
		quotas.Stage(d.Quota, d.Quotas),
		d.limit(),
		d.reauthorize(),
		safekeeping.Ledger(),
		safekeeping.Branch(d.Policy, d.State),
		safekeeping.Checkpoint(d.State.MaskCommand),
		space.Layer(),
		space.Temporary(d.logger()),
		d.commands(),
		d.timeout(),
		d.session(),
		executed.Stage(),
		runs.Measure(d.Tracer, d.Metrics),
		taped.Stage(),
		runs.Cache(d.Adaptive, d.Metrics),
		runs.Retry(),
		both.Stage(),
	)
}

// compact removes stages with the zero value, which represent disabled features.
func compact(stages ...Stage) []Stage {
	return slices.DeleteFunc(stages, func(s Stage) bool { return s.Wrap == nil })
}

// prepare builds the handlers at the first call.
func (d *Dispatcher) prepare() {
	d.once.Do(func() {
		d.run = d.build(d.execute, d.stages())
		d.answer = d.build(d.reply, []Stage{d.record()})
	})
}

// build returns a handler that runs all stages and then calls last.
func (d *Dispatcher) build(last Handler, stages []Stage) Handler {
	for _, s := range slices.Backward(stages) {
		last = d.traced(s.Name, s.Wrap(last))
	}
	return last
}

// phases maps the name of a stage to the name of the span in which the stage runs. All of these spans end before the
// tool runs. A span lasts until the first stage with a different span.
var phases = map[string]string{"hooks": "permit", "authorize": "permit", "limit": "wait"}

// traced wraps the handler of a stage. The returned handler starts the span of the stage according to phases.
func (d *Dispatcher) traced(stage string, next Handler) Handler {
	if d.Tracer == nil {
		return next
	}
	name := phases[stage]
	return func(ctx context.Context, c *Call) *tool.Result {
		c.EnterPhase(d.Tracer, name)
		defer c.EnterPhase(d.Tracer, "") // end the span if the stage ends the call
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
	return c.Identity.Lease.Call(ctx, c.Decision.Sent, c.Peer(d.Policy, d.State))
}

// Adapted returns the limits that the adaptive mode learned for a tool. It returns nil if the mode is disabled or
// ignores the tool.
func (d *Dispatcher) Adapted(name string) *metrics.Adaptive {
	if d.Adaptive == nil {
		return nil
	}
	e := d.Registry.Find(name)
	if e == nil || e.Timeout < 0 {
		return nil
	}
	return d.Adaptive.Report(name, d.Metrics.Tool(name), d.configured(e))
}

func (d *Dispatcher) logger() *slog.Logger {
	if d.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Log
}

func (d *Dispatcher) latest() *Dispatcher {
	if d.Host == nil {
		return d
	}
	return d.Host.Latest()
}

func (d *Dispatcher) options(cwd string) router.Options {
	return router.Options{Exists: existsFrom(cwd), Commands: d.Commands != nil && d.Commands.Available()}
}

// existsFrom returns a function that reports whether a path exists. The function interprets relative paths as relative
// to cwd.
func existsFrom(cwd string) func(string) bool {
	return func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		_, err := os.Lstat(path)
		return err == nil
	}
}

// Explain parses a command in the directory cwd without running it.
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

// Judge returns the policy's decision on a request without asking a person and without running the call. Judge makes no
// use of the exec gate, so the decision does not depend on the machine. If remembered is true, earlier answers count, too.
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
	q := d.question(c)
	if !remembered {
		q.Answers = nil
	}
	return d.Policy.Expect(q)
}
