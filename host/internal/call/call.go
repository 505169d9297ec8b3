// Package call describes one call on its way through the stages of package dispatch.
//
// [Call] contains what was asked for, what was decided and how the call was run. Its methods show it to others: to the
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

// Call is one call on its way through the stages. The comment at a part names the stages that write it; later
// stages read it.
type Call struct {
	Request  Request  // as the frontend made it
	Identity Identity // resolve
	Decision Decision // hooks to measure
	Outcome  Outcome  // deadline to measure

	Client Client            // made the call
	Shown  Client            // sees what the tool reports while it runs; see the stage hooks
	Ticket *scheduler.Ticket // the turn in the session's queue; nil if the call runs inside another one, or the stage queue took it

	held []func() // see Hold

	span      *trace.Span   // of the whole call; nil if it is not recorded
	at        trace.Context // inside span
	within    trace.Context // inside the span of what the plugin does
	phase     *trace.Span   // the phase that the call is in; see EnterPhase
	phaseName string
}

// Identity identifies a call.
type Identity struct {
	Command *router.Command
	Tool    *registry.Entry // nil if the command names no enabled tool
	Lease   Lease           // of the tool's plugin; nil if Answer is set
	Answer  *tool.Result    // the result of a call that needs no plugin: help, or an error
	Parent  string          // the ID of the call that this one runs inside of; empty if there is none
	Depth   int             // how many calls this one runs inside of
	Started time.Time
}

// Decision contains what was decided on the call before it ran.
type Decision struct {
	Arguments map[string]json.RawMessage // by name; hooks and rules may change them
	Sent      *tool.Call                 // what the plugin gets: the same arguments, and what the session knows
	Policy    *policy.Decision           // nil if the call was not judged
	Hooks     []hook.Outcome             // what hooks did
}

// Outcome describes how the call was run.
type Outcome struct {
	Limit  time.Duration // the timeout in force
	Waited bool          // other calls kept this one from running at once
	Full   bool          // there was no room for the call
	Ran    bool          // the plugin or the cache answered
}

// Hold keeps a resource until [Call.Release]. A call holds what its fallback needs too: its turn and its room.
func (c *Call) Hold(release func()) {
	if c.held == nil {
		c.held = make([]func(), 0, 6)
	}
	c.held = append(c.held, release)
}

// Release returns all resources, the last one first. A call that never took its turn leaves the queue.
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
