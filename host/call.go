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

// Client receives the events of a running call and answers its asks. Its methods can be called from several goroutines.
type Client = engine.Client

// Front is the old name of Client.
//
// Deprecated: use [Client].
type Front = Client

// Hook is a hook of the embedding program, with the events and tools for which it runs.
type Hook = engine.Hook

// Decision is the policy's decision about a call.
type Decision = engine.Decision

// Scopes of an answer to a permission ask. A client adds the scope to the answer's Values. Without a scope, the answer
// applies once. The ask's Metadata lists the possible scopes under "scopes", and the cause of the ask under "rule" and
// "reason".
const (
	ScopeOnce    = engine.ScopeOnce
	ScopeSession = engine.ScopeSession // for an accepted or declined ask; applies to this session
	ScopeAlways  = engine.ScopeAlways  // for an accepted ask; applies to this workspace
	ScopeNever   = engine.ScopeNever   // for a declined ask; applies to this workspace
)

// Request is one call: a command string, or the name of a tool with arguments.
type Request struct {
	// ID identifies the call. If ID is empty, the host generates one.
	ID string
	// MessageID is the caller's own id of the message that contains the call.
	MessageID string
	// Command is a command string. It is ignored if Name is set.
	Command string
	// Name is the name of a tool. Arguments are its arguments as a JSON object.
	Name      string
	Arguments json.RawMessage
	// Session is the id of the session, which holds file states, working directory and shell state. Empty means the
	// default session of the workspace. A session belongs to a principal and a workspace: the same id names different
	// sessions for different principals and in different workspaces.
	Session string
	// InOrder makes the call run alone and after all earlier calls of the session, unless its tool is safe beside
	// others. Without InOrder, the call waits only for calls that can change what this call depends on.
	InOrder bool
	// From is the id of a session. If Session does not exist yet, it begins as a copy of From. Empty means that a new
	// session begins empty.
	From string
	// Workspace is the absolute path of the session's read-write root. Empty means the host's workspace.
	Workspace string
	// Branch is the name of the branch in which the session works. A branch is a layer over the workspace that receives
	// all changes. A missing branch is created. Sessions with the same id in different branches are different sessions.
	// If Branch is empty, the setting "mode" of the workspace block applies. By default, the session then works in the
	// workspace itself.
	Branch string
	// Preview makes the call run in a branch of its own, over the session's branch or workspace. The key "preview" in
	// the metadata of the result contains what the call changed ("changes" and "diff") and a "token".
	// [Host.ApplyBranch] with the token as branch makes exactly these changes, and [Host.DiscardBranch] drops them. The
	// call does not change the session. A preview that nobody applied is dropped after a day.
	Preview bool
	// Trace is the W3C trace context of the caller, in the format of the HTTP header "traceparent". If Trace is empty
	// or invalid, the call starts a new trace.
	Trace string
	// Principal is the caller, as [Directory.Authenticate] returns it. Nil means the user of this process, who has all
	// rights. A program that serves other callers must set it.
	Principal *Principal
	// Endpoint is the name of an endpoint in the configuration. The call, and the calls of its commands, can only use
	// the tools of this endpoint. Empty means no restriction.
	Endpoint string
	// Exchange is set if an MCP client requests something else than a call of a tool. Name then contains the name of
	// the requested item, for the logs. Arguments contains the parameters of the MCP method. [Result.Data] contains the
	// result of the method.
	Exchange *Exchange
	// Client describes the MCP client that makes the call. It is nil for other callers.
	Client *tool.ClientInfo
	// Continuable means that the client can continue this call in another process. The client's Ask then gets the field
	// [tool.Ask.Continuation] from the called plugin. Continuable has no effect on commands.
	Continuable bool
	// Continuation continues a call that began in another process. It is the [tool.Ask.Continuation] of that call. The
	// caller must have verified that both calls have the same principal, name and arguments; see [Host.Seal].
	Continuation []byte
	// Once is the caller's own id of the call. In a fleet, a second request of the session with the same id does not
	// run the call again. It returns the result of the first request. An empty Once means that every request is a new
	// call.
	Once string
	// Ledger records the call. Only package fleet sets it.
	Ledger Ledger
}

// Ledger records a call in a fleet, in which another host can take over the session of the call. See package fleet.
type Ledger = engine.Ledger

// Exchange identifies the plugin, the method and the item of a request of an MCP client; see [Host.Items].
type Exchange = engine.Exchange

// Run runs one request. If client is nil, progress is discarded and asks are declined. If ctx is canceled, the tool is
// canceled and the result is an error.
func (h *Host) Run(ctx context.Context, req Request, client Client) *Result {
	return h.Begin(req, client).Run(ctx)
}

// Begin resolves and queues a request without blocking. If requests of one session must run in order, they run in the
// order of their Begin calls. The caller must call [Pending.Run] on the result.
func (h *Host) Begin(req Request, client Client) *Pending {
	if f := h.fleet.Load(); f != nil {
		if q := (*f).Begin(req, client); q != nil {
			return &Pending{q}
		}
	}
	return h.BeginHere(req, client)
}

// BeginHere is like Begin, but the request never leaves this host. Package fleet uses it.
func (h *Host) BeginHere(req Request, client Client) *Pending {
	return &Pending{h.engine.Begin(engine.Request(req), client)}
}

// Fleet handles requests for sessions that another host can have. See package fleet.
type Fleet interface {
	// Begin queues a request like [Host.Begin]. It returns nil if the request is not for the fleet.
	Begin(req Request, client Client) Queued
	// Stats returns the counts of events between the hosts.
	Stats() FleetStats
}

// FleetStats counts events between the hosts of a fleet. The counts begin when this host joins the fleet.
type FleetStats struct {
	// Forwarded is the number of calls that this host sent to other hosts. NotOwner is the number of calls that other
	// hosts sent to this host although it does not have their session.
	Forwarded, NotOwner uint64
	// Takeovers is the number of sessions that this host took over because the earlier host of the session had ended.
	Takeovers uint64
	// Unknown is the number of calls without a known outcome. Their host was lost while the calls ran.
	Unknown uint64
	// Forward contains the durations of forwarded calls. Journal contains the times until the coordinators confirmed a
	// record.
	Forward, Journal Times
	// Lease is the time until the lease of this host ends, in seconds.
	Lease float64
	// Sessions is the number of open sessions, and Nodes the number of hosts by state.
	Sessions int
	Nodes    map[string]int
}

// FleetStats returns the counts of the fleet. ok is false if the host is in no fleet.
func (h *Host) FleetStats() (s FleetStats, ok bool) {
	f := h.fleet.Load()
	if f == nil {
		return s, false
	}
	return (*f).Stats(), true
}

// Queued is a request that is queued in its session. See [Pending] for the methods.
type Queued interface {
	Native() bool
	Run(ctx context.Context) *Result
}

// Join lets a fleet handle the requests of this host. It must be called before the first request.
func (h *Host) Join(f Fleet) { h.fleet.Store(&f) }

// Pending is a request that is queued in its session. See [Host.Begin].
type Pending struct{ inner Queued }

// Native reports whether the request is a native command. The output of a native command is streamed.
func (p *Pending) Native() bool { return p.inner.Native() }

// Run runs the request. If ctx is canceled, the tool is canceled. Run must be called once.
func (p *Pending) Run(ctx context.Context) *Result { return p.inner.Run(ctx) }

// Explain returns the interpretation of a command without running it.
func (h *Host) Explain(req Request) *router.Command { return h.engine.Explain(engine.Request(req)) }

// Judge returns the policy's decision about a request. It does not ask the user or run the request.
func (h *Host) Judge(req Request) (*Decision, error) { return h.engine.Judge(engine.Request(req)) }

// PermissionTest is a test case: the expected decision of the policy about a command.
type PermissionTest = engine.PermissionTest

// PermissionTests returns the permission tests in the configuration.
func (h *Host) PermissionTests() []PermissionTest { return h.engine.PermissionTests() }

// TestPermissions runs a permission test. It returns nil if the test passes.
func (h *Host) TestPermissions(t PermissionTest) error { return h.engine.TestPermissions(t) }

// HistoryEntry is one command in a session's history.
type HistoryEntry = engine.HistoryEntry

// History returns the last commands of a request's session, oldest first. It returns at most limit commands.
func (h *Host) History(req Request, limit int) ([]HistoryEntry, error) {
	return h.engine.History(engine.Request(req), limit)
}

// Cwd returns the working directory of a request's session.
func (h *Host) Cwd(req Request) (string, error) { return h.engine.Cwd(engine.Request(req)) }

// BranchSelection selects the changes of an apply. All its paths are relative to the workspace. The field Paths limits
// the apply to these paths and everything below them. Ours and Theirs list paths with conflicts. Those in Ours get the
// content of the branch, and those in Theirs keep the content of the workspace. StopJobs ends the jobs that run in the
// branch. Without StopJobs, a running job makes the apply fail. Asks is the client that is asked if somebody must
// confirm the changes; see [BranchUnaskedError]. Nil means that nobody is asked.
type BranchSelection = engine.BranchSelection

// BranchChange is what a branch changes at one path.
type BranchChange = engine.BranchChange

// BranchOutcome describes an apply.
type BranchOutcome = engine.BranchOutcome

// BranchConflictError means that nothing was applied, because the branch and the workspace changed the same paths.
type BranchConflictError = engine.BranchConflictError

// BranchJobsError means that nothing was applied, because jobs run in the branch.
type BranchJobsError = engine.BranchJobsError

// BranchNotFoundError means that a workspace has no branch of a name.
type BranchNotFoundError = engine.BranchNotFoundError

// BranchChangedError means that nothing was applied, because the preview, or the branch under it, changed after a
// person saw the preview.
type BranchChangedError = engine.BranchChangedError

// AtomicPrefix is the prefix of the names of branches for atomic batches. Calls in such a branch ask the same questions
// as calls in the workspace.
const AtomicPrefix = engine.AtomicPrefix

// BranchHeldError means that nothing was applied, because the branch is the preview of a permission request that nobody
// has answered. Only the answer can apply it.
type BranchHeldError = engine.BranchHeldError

// BranchUnaskedError means that nothing was applied: a call ran in the branch for which the policy asks in the
// workspace, and the principal may not answer the permission requests of the branch's owner. Nobody was asked either;
// see [BranchSelection].
type BranchUnaskedError = engine.BranchUnaskedError

// ApplyBranch makes the changes of the branch of a request: all, or none if there is a conflict. It ends the processes
// of the branch. It returns an error if a call runs in the branch. If the configuration keeps sessions in branches, the
// principal needs the right to administer. Other errors are [BranchHeldError], [BranchUnaskedError],
// [BranchConflictError], [BranchChangedError] and [BranchNotFoundError].
func (h *Host) ApplyBranch(ctx context.Context, req Request, sel BranchSelection) (*BranchOutcome, error) {
	return h.engine.ApplyBranch(ctx, engine.Request(req), sel)
}

// DiscardBranch removes the branch of a request with all its changes. The conditions of ApplyBranch apply.
func (h *Host) DiscardBranch(ctx context.Context, req Request) error {
	return h.engine.DiscardBranch(ctx, engine.Request(req))
}

// BranchChanges returns what the branch of a request changes, as a list and as a diff. The diff has about limit bytes.
// It names every deleted or replaced path, even beyond the limit.
func (h *Host) BranchChanges(req Request, limit int) (changes []BranchChange, diff string, err error) {
	return h.engine.BranchChanges(engine.Request(req), limit)
}

// ReleaseBranch unmounts the branch of a request, so that another process can use it, and ends the processes of its
// sessions. It returns an error if a call runs in the branch. An unmounted branch is mounted again by its next call.
func (h *Host) ReleaseBranch(req Request) error { return h.engine.ReleaseBranch(engine.Request(req)) }
