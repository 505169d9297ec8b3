// Package call describes a call of a tool on its way through the stages of package dispatch.
//
// [Call] contains the request, the decisions about the call, and its outcome. Its methods convert the call for the
// plugin, the policy, the hooks, the tracer and the audit log.
package call

import (
	"encoding/json"
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

// Call is a call on its way through the stages. The comment of each part names the stages that write it. Later stages
// read it.
type Call struct {
	Request  Request  // written by the frontend
	Identity Identity // written by resolve
	Decision Decision // written by the stages from hooks to measure
	Outcome  Outcome  // written by the stages from deadline to measure

	Client Client            // the client that made the call
	Shown  Client            // the client that receives output while the tool runs; see the stage hooks
	Ticket *scheduler.Ticket // the turn in the session's queue; nil for a child call, and after the stage queue

	held []func() // release functions; see Hold

	span      *trace.Span   // the span of the whole call; nil if the call is not recorded
	at        trace.Context // the trace context of span
	within    trace.Context // the trace context of the plugin's span
	phase     *trace.Span   // the span of the current phase; see EnterPhase
	phaseName string
}

// Identity contains the resolved command, tool and plugin of a call.
type Identity struct {
	Command *router.Command
	Tool    *registry.Entry // nil if the command names no enabled tool
	Lease   Lease           // a lease of the tool's plugin; nil if Answer is set
	Answer  *tool.Result    // the result of a call that needs no plugin: help, or an error
	Parent  string          // the ID of the parent call; empty if the call has no parent
	Depth   int             // the number of parent calls, direct and indirect
	Started time.Time
}

// Decision contains the decisions on the call before it ran.
type Decision struct {
	Arguments map[string]json.RawMessage // arguments by name; hooks and rules can change them
	Sent      *tool.Call                 // the call for the plugin: the same arguments, and the session's state
	Policy    *policy.Decision           // nil if the call was not judged
	Hooks     []hook.Outcome             // the actions of hooks
}

// Outcome describes how the call was run.
type Outcome struct {
	Limit  time.Duration // the timeout in force
	Waited bool          // whether the call had to wait for other calls
	Full   bool          // whether a limit prevented the call from running
	Ran    bool          // whether the plugin or the cache answered
}

// Hold keeps a resource until [Call.Release]. A fallback of the call uses the same resources: the queue turn and the
// concurrency slots.
func (c *Call) Hold(release func()) {
	if c.held == nil {
		c.held = make([]func(), 0, 6)
	}
	c.held = append(c.held, release)
}

// Release returns all resources in reverse order. A call that still waits leaves the queue.
func (c *Call) Release() {
	for _, release := range slices.Backward(c.held) {
		release()
	}
	if c.Ticket != nil {
		c.Ticket.Abandon()
	}
	if c.Identity.Lease != nil {
		c.Identity.Lease.Release()
	}
	c.held, c.Ticket, c.Identity.Lease = nil, nil, nil
}
