// Package call describes a call of a tool for the stages of package dispatch.
//
// [Call] contains the request, the decisions about the call, and its outcome. Its methods convert the call for the
// plugin, the policy, the hooks, the tracer and the audit log. [RunningCalls] lists the calls that run or wait, with
// their last output, so that a person can see and cancel them.
//
// The functions whose names begin with Note add information from the host to a result. Each note becomes part of the
// text for the model and of the result's metadata. A frontend needs the metadata if it showed the text before the note
// was added.
package call

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/router"
	"toolhost.dev/sandbox/execgate"
)

// Call is a call of a tool. Each call passes through several stages, one after the other. The comment of each field
// names the stages that write the field. Later stages only read the field.
type Call struct {
	Request  Request  // written by the frontend that received the call
	Identity Identity // written when the command is resolved
	Decision Decision // written by the stages "hooks" to "measure"
	Outcome  Outcome  // written by the stages "deadline" to "measure"

	Client Client            // the client that made the call
	Shown  Client            // receives the output of the running tool; the stage "hooks" can replace the client
	Ticket *scheduler.Ticket // place in the session's line; nil for a child call

	// CallTool runs a call that the code of the tool makes. It is nil if the call cannot make calls.
	CallTool func(ctx context.Context, t *tool.ToolCall) *tool.Result

	// Park releases the call's turn in its session until the function "back" is called; see dispatch.Pending. It
	// is nil for a child call.
	Park func() (back func(context.Context) error)

	Arrival *scheduler.Arrival // announcement of the call to its tool's limit; nil if the tool has no queue

	started bool // whether Start was called; then one of the functions in held ends the ticket

	waits atomic.Pointer[string] // see WaitFor

	permitsMu sync.Mutex
	permits   []string // see answered

	runs atomic.Int64 // when the tool started, in nanoseconds; 0 if it has not started

	held []func() // release functions; see Hold
	room int64    // number of bytes that the call has of the room for large results

	span      *telemetry.Span        // the span of the whole call; nil if the call is not recorded
	at        telemetry.TraceContext // the trace context inside span
	within    telemetry.TraceContext // the trace context inside the plugin's span
	phase     *telemetry.Span        // the span of the current phase; see EnterPhase
	phaseName string
}

// Identity describes which tool and which plugin run the call.
type Identity struct {
	Command *router.Command
	Tool    *registry.Entry  // nil if the command names no enabled tool
	Lease   Lease            // a lease of the tool's plugin; nil if Answer is set
	Answer  *tool.Result     // the result of a call that needs no plugin: help, or an error
	Rollout *rollout.Rollout // the rollout of another version of the plugin; nil without one
	Standby Lease            // a lease of the old version if Lease is of the new one; nil otherwise
	Parent  string           // the ID of the parent call; empty if the call has no parent
	Depth   int              // the number of parent calls, direct and indirect
	Above   []string         // the plugins of the parent calls, direct and indirect
	Started time.Time
	Gated   bool // whether the exec gate judges the programs that the call executes

	Confinement Confinement // the sandbox of the tool's plugin; set before the stages run
}

// Decision holds the decisions that are made before the call runs.
type Decision struct {
	Arguments map[string]json.RawMessage // arguments by parameter name; hooks and rules can change them
	Sent      *tool.Call                 // the message to the plugin, with the arguments and the session's state
	Policy    *policy.Decision           // nil if the policy did not decide
	Hooks     []hook.Outcome             // the actions of the hooks
}

// Outcome describes the execution of the call.
type Outcome struct {
	Limit  time.Duration // the timeout that applied to the call
	Waited bool          // whether the call had to wait for other calls
	Full   bool          // whether a limit on concurrent calls refused the call
	Ran    bool          // whether the plugin or the cache returned a result

	Programs *execgate.Record // the programs that the call executed; nil if the call executed no program, or if programs are not recorded
	Refused  []string         // messages about programs that the exec gate denied
}

// Hold registers a function that [Call.Release] calls to release a resource, such as the queue position or a
// concurrency slot. A fallback uses the same resources as the failed call.
func (c *Call) Hold(release func()) {
	if c.held == nil {
		c.held = make([]func(), 0, 6)
	}
	c.held = append(c.held, release)
}

// Release releases all resources in reverse order. A call that is still waiting leaves the queue.
func (c *Call) Release() {
	for _, release := range slices.Backward(c.held) {
		release()
	}
	if c.Ticket != nil && !c.started {
		c.Ticket.Abandon()
	}
	c.ReleaseLease()
	c.leaveRoom()
	c.held, c.Ticket = nil, nil
}

// Runs marks the start of the tool.
func (c *Call) Runs() { c.runs.Store(time.Now().UnixNano()) }

// RunsSince returns the start time of the tool. It returns the zero time before the start. It is safe for concurrent
// use.
func (c *Call) RunsSince() time.Time {
	if ns := c.runs.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// WaitFor records what the call waits for. The argument describes an event outside this process. An empty description
// means that the call does not wait. WaitFor is safe for concurrent use.
func (c *Call) WaitFor(what string) { c.waits.Store(&what) }

// WaitsFor returns the description from the last call of WaitFor.
func (c *Call) WaitsFor() string {
	if what := c.waits.Load(); what != nil {
		return *what
	}
	return ""
}

// Start records that the call has reached the front of its queue. [Call.Release] then calls done, which ends the ticket
// of the call.
func (c *Call) Start(done func()) {
	c.started = true
	c.Hold(done)
}

// ReleaseLease returns the lease of the call's plugin. It does nothing if the call has no lease.
func (c *Call) ReleaseLease() {
	if c.Identity.Lease != nil {
		c.Identity.Lease.Release()
		c.Identity.Lease = nil
	}
	if c.Identity.Standby != nil {
		c.Identity.Standby.Release()
		c.Identity.Standby = nil
	}
}

// Name returns the name of the call's tool. If the tool is not known yet, it returns the first word of the command.
func (c *Call) Name() string {
	if c.Identity.Tool == nil {
		return c.Identity.Command.FirstWord()
	}
	return c.Identity.Tool.FullName()
}

// MetricsName returns the name under which the metrics count a call. An exchange is counted under its method, because
// the number of resource names that clients can use is unlimited.
func (c *Call) MetricsName(name string) string {
	if x := c.Request.Exchange; x != nil {
		return x.Plugin + ":" + x.Method
	}
	return name
}
