package host

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/router"
)

// Result is the outcome of a call. See package tool.
type Result = tool.Result

// Client receives the events of a call while it runs, and answers its questions. Its methods may be called from several
// goroutines.
type Client = engine.Client

// Front is the old name of Client.
//
// Deprecated: use [Client].
type Front = Client

// Hook is an embedder's hook, with the events and tools that it is called for.
type Hook = engine.Hook

// Decision is the policy's decision about a call.
type Decision = engine.Decision

// How long an answer to a permission ask holds. A client puts one of these into the answer's Values; an answer without one
// holds once. The ask's Metadata lists the possible ones under "scopes", and the cause of the ask under "rule" and
// "reason".
const (
	ScopeOnce    = engine.ScopeOnce
	ScopeSession = engine.ScopeSession // accepted or declined, in this session
	ScopeAlways  = engine.ScopeAlways  // accepted, in this workspace
	ScopeNever   = engine.ScopeNever   // declined, in this workspace
)

// Request is one call: a command string, or the name of a tool with arguments.
type Request struct {
	// ID of the call. If it is empty, the host makes one.
	ID string
	// MessageID is the caller's own id of the message that contains the call.
	MessageID string
	// Command is a command string. It is ignored if Name is set.
	Command string
	// Name of a tool. Arguments is a JSON object.
	Name      string
	Arguments json.RawMessage
	// Session whose file states, working directory and shell state apply. Empty means the workspace's own session.
	Session string
	// Workspace is the read-write root of the session, absolute. Empty means the host's.
	Workspace string
	// Trace is the W3C trace context that the call is part of, as in the header traceparent. An empty or invalid one starts
	// a trace.
	Trace string
}

// Run runs one request. If client is nil, progress is discarded and asks are declined. If ctx ends, the
// tool is stopped and the result is an error.
func (h *Host) Run(ctx context.Context, req Request, client Client) *Result {
	return h.Begin(req, client).Run(ctx)
}

// Begin resolves and queues a request without blocking. Requests of a session that are begun one after the other run in that
// order where they must. The caller must call [Pending.Run] on the result.
func (h *Host) Begin(req Request, client Client) *Pending {
	return &Pending{h.engine.Begin(engine.Request(req), client)}
}

// Pending is a request that is queued in its session. See [Host.Begin].
type Pending struct{ inner *engine.Pending }

// Native reports whether the request is a native command, whose output is streamed as it is printed.
func (p *Pending) Native() bool { return p.inner.Native() }

// Run runs the request. Call it once. If ctx ends, the tool is told to stop.
func (p *Pending) Run(ctx context.Context) *Result { return p.inner.Run(ctx) }

// Explain returns what a command means, without running it.
func (h *Host) Explain(req Request) *router.Command { return h.engine.Explain(engine.Request(req)) }

// Judge returns the policy's decision about a request. It asks nobody and runs nothing.
func (h *Host) Judge(req Request) (*Decision, error) { return h.engine.Judge(engine.Request(req)) }

// PermissionTest states what the policy must decide about a command.
type PermissionTest = engine.PermissionTest

// PermissionTests returns the tests of the configuration.
func (h *Host) PermissionTests() []PermissionTest { return h.engine.PermissionTests() }

// TestPermissions runs a test. It returns nil if the test passes.
func (h *Host) TestPermissions(t PermissionTest) error { return h.engine.TestPermissions(t) }

// HistoryEntry is one command of a session.
type HistoryEntry = engine.HistoryEntry

// History returns up to limit of the last commands of the session that a request belongs to, oldest first.
func (h *Host) History(req Request, limit int) ([]HistoryEntry, error) {
	return h.engine.History(engine.Request(req), limit)
}

// Cwd returns the working directory of the session that a request belongs to.
func (h *Host) Cwd(req Request) (string, error) { return h.engine.Cwd(engine.Request(req)) }
