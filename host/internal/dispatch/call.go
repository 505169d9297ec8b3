package dispatch

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Call is one call on its way through the stages. The comment at a part names the stages that write it; later
// stages read it.
type Call struct {
	Request  Request  // as the frontend made it
	Identity Identity // resolve
	Decision Decision // hooks to measure
	Outcome  Outcome  // deadline to measure

	front  Front             // made the call
	shown  Front             // sees what the tool reports while it runs; see hooks
	ticket *scheduler.Ticket // the turn in the session's line; nil if the call runs inside another one, or queue took it
	held   []func()          // see hold

	span      *trace.Span   // of the whole call; nil if it is not recorded
	at        trace.Context // inside span
	within    trace.Context // inside the span of what the plugin does
	phase     *trace.Span   // the phase that the call is in; see traced
	phaseName string
}

// Identity says which call this is.
type Identity struct {
	Command *router.Command
	Tool    *registry.Entry // nil if the command names no enabled tool
	Lease   Place           // of the tool's plugin; nil if Answer is set
	Answer  *tool.Result    // the result of a call that needs no plugin: help, or an error
	Parent  string          // the ID of the call that this one runs inside of; empty if there is none
	Depth   int             // how many calls this one runs inside of
	Started time.Time
}

// Decision says what was decided on the call before it ran.
type Decision struct {
	Arguments map[string]json.RawMessage // by name; hooks and rules may change them
	Sent      *tool.Call                 // what the plugin gets: the same arguments, and what the session knows
	Policy    *policy.Decision           // nil if the call was not judged
	Hooks     []hook.Outcome             // what hooks did
}

// Outcome says how the call was run.
type Outcome struct {
	Limit  time.Duration // the timeout in force
	Waited bool          // other calls kept this one from running at once
	Full   bool          // there was no room for the call
	Ran    bool          // the plugin or the cache answered
}

// hold keeps a resource until the call has ended: Run calls release last. What a fallback needs too is held:
// the turn and the room of its call.
func (c *Call) hold(release func()) { c.held = append(c.held, release) }

// release returns all resources, the last one first. A call that never took its turn leaves the line.
func (c *Call) release() {
	for _, release := range slices.Backward(c.held) {
		release()
	}
	if c.ticket != nil {
		c.ticket.Abandon()
	}
	if c.Identity.Lease != nil {
		c.Identity.Lease.Release()
	}
	c.held, c.ticket, c.Identity.Lease = nil, nil, nil
}

// message returns the call as the plugin gets it.
func (c *Call) message() *tool.Call {
	r := &c.Request
	return &tool.Call{
		ID: r.ID, MessageID: r.MessageID, Tool: c.Identity.Tool.Definition.Name, Arguments: object(c.Decision.Arguments),
		SessionID: r.Session.ID, Cwd: r.Session.Cwd, Roots: r.Session.Roots,
	}
}

// object joins values to a JSON object. They must be valid JSON.
func object(values map[string]json.RawMessage) json.RawMessage {
	size := len("{}")
	for name, v := range values {
		size += len(name) + len(v) + len(`"":,`)
	}
	out := append(make(json.RawMessage, 0, size), '{')
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil { // a string marshals
			panic(err)
		}
		out = append(append(append(out, key...), ':'), values[name]...)
	}
	return append(out, '}')
}

// refused returns the result of a call that the host refuses.
func refused(err error) *tool.Result {
	e := tool.AsError(err)
	if e.Source == "" {
		e = e.From(tool.SourceHost)
	}
	return &tool.Result{Error: e}
}

// annotate sets an entry of the result's metadata.
func annotate(res *tool.Result, key string, value any) {
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	res.Metadata[key] = value
}

// execute calls the leased plugin. It is what the stages wrap.
func (d *Dispatcher) execute(ctx context.Context, c *Call) *tool.Result {
	return c.Identity.Lease.Call(ctx, c.Decision.Sent, &peer{Front: c.shown, d: d, call: c})
}
