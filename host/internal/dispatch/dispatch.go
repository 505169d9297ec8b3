// Package dispatch carries out calls.
//
// [Dispatcher.Begin] resolves a call and queues it, and [Pending.Run] takes it through the stages.
// Dispatcher.stages lists these in their order. All frontends use this package, so that no call can skip a
// stage.
package dispatch

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Shell is the name of the tool that runs native commands.
const Shell = "bash"

// MaxTimeout limits every call, including calls of tools that measure their own time.
const MaxTimeout = time.Hour

// Request is a call as a frontend makes it. It has either a Command or a Name with Arguments.
type Request struct {
	ID        string
	MessageID string
	Command   string
	Name      string
	Arguments json.RawMessage
	Session   Session
	// Trace is the trace context of the caller. The zero value means that there is none.
	Trace trace.Context
}

// Session is the session of a call, with the roots of its workspace.
type Session struct {
	state.Session
	Roots []tool.Root
}

// Contains reports whether a directory is in one of the session's roots.
func (s Session) Contains(dir string) bool {
	dir = filepath.Clean(dir)
	return filepath.IsAbs(dir) && slices.ContainsFunc(s.Roots, func(r tool.Root) bool {
		return dir == r.Path || strings.HasPrefix(dir, strings.TrimSuffix(r.Path, "/")+"/")
	})
}

// Front receives the events of a call while it runs, and answers its questions.
type Front interface {
	Progress(title string, metadata map[string]any)
	Output(stream tool.Stream, chunk []byte)
	Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error)
}

// Plugins leases plugins to calls.
type Plugins interface {
	// Reserve leases the current instance of a plugin to one call. It returns nil if the plugin was replaced. The
	// dispatcher then retries with the one that Dispatcher.Latest returns.
	Reserve(plugin string) Place
}

// Place is the lease of a plugin for one call.
type Place interface {
	Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result
	// Release returns the lease. It is called once.
	Release()
	// Version identifies one instance of the plugin. Two versions are equal only if the instance is the same.
	Version() any
}

// Dispatcher carries out the calls of one generation. It is safe for concurrent use. Its fields must not
// change after the first call.
type Dispatcher struct {
	Registry  *registry.Registry
	Policy    *policy.Policy
	Scheduler *scheduler.Scheduler
	Plugins   Plugins
	// Gates limit how many calls run at the same time in all sessions: MaxCalls together (0 means no limit),
	// and for each tool as its registry entry says. A nil Gates means no limits.
	Gates    *scheduler.Gates
	MaxCalls int
	// Commands lets commands call tools. A nil Commands means that they cannot.
	Commands Commands
	State    *state.DB
	// Metrics count the calls. A nil Metrics counts nothing.
	Metrics *metrics.Metrics
	// Hooks take part in calls. A nil Hooks means that there are none.
	Hooks *hook.Set
	// Adaptive learns limits from calls and caches results. A nil Adaptive turns both off.
	Adaptive *Adaptive
	// Tracer records spans. A nil Tracer records nothing.
	Tracer *trace.Tracer
	// Timeout of calls whose tool has none.
	Timeout time.Duration
	// Latest returns the current dispatcher. A nil Latest means that the dispatcher is never replaced.
	Latest func() *Dispatcher
	// Unloaded returns why the plugin of this name could not be loaded, or "". It may be nil.
	Unloaded func(name string) string
	// Denied returns what the sandbox of a plugin refused since a moment, also as far as the printed text shows it.
	// It may be nil.
	Denied func(plugin string, roots []tool.Root, since time.Time, printed string) []string

	once   sync.Once
	run    Handler // all stages
	answer Handler // for a call that needs no plugin
}

func (d *Dispatcher) latest() *Dispatcher {
	if d.Latest == nil {
		return d
	}
	return d.Latest()
}

// Explain returns what a command means in the directory cwd, without running it.
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

// Judge returns the policy's decision on a request. It neither asks nor runs anything.
func (d *Dispatcher) Judge(req Request) *policy.Decision {
	c := &Call{Request: req}
	c.Identity.Command = d.parse(req)
	d.bind(c)
	if res := c.Identity.Answer; res != nil {
		out := &policy.Decision{Effect: policy.Allow, Reason: "nothing would run"}
		if res.Error != nil {
			out.Effect, out.Reason = policy.Deny, res.Error.Message
		}
		return out
	}
	c.Decision.Sent = c.message()
	return d.Policy.Judge(question(c))
}
