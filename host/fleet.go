package host

import (
	"context"
	"encoding/json"
	"time"

	"toolhost.dev/host/internal/engine"
	"toolhost.dev/sdk/tool"
)

// SessionChange is what calls changed in a session: its directory, the states of its files, and what plugins stored.
type SessionChange = engine.SessionChange

// FleetSettings are the settings of the fleet block of the configuration.
type FleetSettings = engine.FleetSettings

// FleetWorkspace is a named workspace of a fleet.
type FleetWorkspace = engine.FleetWorkspace

// Fleet returns the settings of the fleet block, or nil if the configuration has none. The result "digest" identifies
// the configuration without the settings of this host alone. Hosts of a fleet compare their digests to find out whether
// they use the same configuration.
func (h *Host) Fleet() (s *FleetSettings, digest string) { return h.engine.Fleet() }

// SessionLife returns the time after which a session that nobody used is deleted: the retention of the configuration,
// or 90 days.
func (h *Host) SessionLife() time.Duration { return h.engine.SessionLife() }

// DefaultFleet returns the settings of an empty fleet block.
func DefaultFleet() *FleetSettings { return engine.DefaultFleet() }

// MinFleetLease is the shortest lease in a fleet with several coordinators.
const MinFleetLease = engine.MinFleetLease

// SharedFiles are the configuration and the lock file that the nodes of a fleet share.
type SharedFiles = engine.SharedFiles

// SharedFiles returns the files of the configuration without the settings of this host alone, which are the fleet block
// and the state directory. It returns an error if the configuration is built-in or a directory.
func (h *Host) SharedFiles() (*SharedFiles, error) { return h.engine.SharedFiles() }

// ReadSharedFiles reads a configuration and the lock file beside it, for [Host.ReplaceConfig].
func ReadSharedFiles(path string) (*SharedFiles, error) { return engine.ReadSharedFiles(path) }

// ReplaceConfig replaces the configuration by the files of another host of the fleet, and applies it. This host keeps
// its fleet block and its state directory. If this host refuses the configuration or a plugin, it restores its files,
// and ReplaceConfig returns the reason. The argument "by" is the operator, for the audit log. The argument "approve"
// accepts additional privileges.
func (h *Host) ReplaceConfig(ctx context.Context, files *SharedFiles, by string, approve bool) error {
	return h.engine.ReplaceConfig(ctx, files, by, approve)
}

// StateDir returns the state directory, or "" if the host has none.
func (h *Host) StateDir() string { return h.engine.StateDir() }

// SessionState returns the whole state of a request's session. It creates a missing session.
func (h *Host) SessionState(req Request) (*SessionChange, error) {
	return h.engine.SessionState(engine.Request(req))
}

// ChangeSession makes a change in the state of a request's session, such as one that another host recorded. After
// ChangeSession returned, the change survives a kill of this host.
func (h *Host) ChangeSession(req Request, c *SessionChange) error {
	return h.engine.ChangeSession(engine.Request(req), c)
}

// FollowSession starts to collect the changes that calls make in a request's session. The function "taken" returns the
// changes since its previous call. The function "stop" ends the collection.
func (h *Host) FollowSession(req Request) (taken func() *SessionChange, stop func(), err error) {
	return h.engine.FollowSession(engine.Request(req))
}

// GuardProcesses makes the host call guard with each new process of a plugin, before the process gets its first call.
// If guard returns an error, the host stops the process. Several goroutines can call guard. A process that the host
// started before is not passed to guard. [Host.EndProcesses] ends these processes, also those that are still starting.
func (h *Host) GuardProcesses(guard func(pid int, roots []tool.Root) error) {
	h.engine.GuardProcesses(guard)
}

// CallsPerMinute returns the number of calls per minute that the quota blocks of the configuration permit to a
// principal. It returns 0 for no limit.
func (h *Host) CallsPerMinute(p *Principal) int { return h.engine.CallsPerMinute(p) }

// EndsAll returns an error if processes of a tool can continue to run after the host kills the tool's plugin.
func (h *Host) EndsAll() error { return h.engine.EndsAll() }

// EndProcesses kills each plugin process for whose roots the function "of" returns true. The next call starts the
// plugin again.
func (h *Host) EndProcesses(of func(roots []tool.Root) bool) { h.engine.EndProcesses(of) }

// EndSession kills the plugin processes that serve only the session of a request, and all processes that these started.
// It waits at most two seconds until they have ended, and returns an error if they have not.
func (h *Host) EndSession(req Request) error { return h.engine.EndSession(engine.Request(req)) }

// StartSpan begins a span for work that happens before a call. The argument "trace" is the trace context of the caller,
// as in [Request.Trace]. The result "within" is the trace context of the new span. Without tracing, both are equal. The
// caller must call the function "end" once, with the kind of an error or "".
func (h *Host) StartSpan(trace, name string, attributes map[string]string) (within string, end func(problem string)) {
	return h.engine.StartSpan(trace, name, attributes)
}

// OnFleet lets other processes of the same user request operations on the fleet of this host, with admin.Remote.
func (h *Host) OnFleet(f func(ctx context.Context, operation string, arguments json.RawMessage) (any, error)) {
	h.engine.OnFleet(f)
}

// ErrNoFleet is returned by [Host.OperateFleet] if the host is not a node of a fleet.
var ErrNoFleet = engine.ErrNoFleet

// OperateFleet carries out an operation on the fleet of the host, such as "status" or "drain". The arguments have the
// form of fleet.Arguments, and the result depends on the operation. The argument "by" is the operator, for the audit
// log.
func (h *Host) OperateFleet(ctx context.Context, by *Principal, operation string,
	arguments json.RawMessage) (any, error) {
	return h.engine.OperateFleet(ctx, by.Name, operation, arguments)
}

// DecodePrincipal returns the principal that [Principal.Encode] encoded. The caller must have verified the origin of
// the text.
func DecodePrincipal(text []byte) (*Principal, error) { return engine.DecodePrincipal(text) }

// ReachesPerson reports whether a person can answer the asks of a client at once.
func ReachesPerson(c Client) bool { return engine.ReachesPerson(c) }

// Decided reports whether a client answers permission asks without a person.
func Decided(c Client) bool { return engine.Decided(c) }

// Parks reports whether a client's question goes to a person who may never come back with the answer.
func Parks(c Client) bool { return engine.Parks(c) }

// AnswersRequests reports whether a client answers requests of MCP servers.
func AnswersRequests(c Client) bool { return engine.AnswersRequests(c) }

// Log passes a log message to a client, if the client accepts log messages.
func Log(c Client, m tool.LogMessage) { engine.Log(c, m) }

// FleetStatus describes a fleet from the view of one of its nodes.
type FleetStatus struct {
	Fleet string      `json:"fleet"`
	Node  string      `json:"node"`
	Nodes []FleetNode `json:"nodes"`
	// Sessions is the number of sessions in the directory.
	Sessions int `json:"sessions"`
	// Coordinators is the number of coordinators. Current is the number of coordinators that have all records, or 0 if
	// the coordinators do not answer. Leader is the name of the leading coordinator.
	Coordinators int    `json:"coordinators"`
	Current      int    `json:"coordinators_current"`
	Leader       string `json:"leader,omitempty"`
	// Journal is the size of the journal in bytes, and JournalMax its maximum.
	Journal    uint64 `json:"journal_bytes"`
	JournalMax int64  `json:"journal_max_bytes"`
	// Config is the digest of the configuration of the fleet.
	Config string `json:"config"`
	// Trial lists the nodes that use a configuration on trial. It is empty without a trial.
	Trial    []string `json:"trial,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// FleetNode describes a node of a fleet.
type FleetNode struct {
	Node string `json:"node"`
	// Incarnation identifies one run of the node.
	Incarnation string `json:"incarnation"`
	State       string `json:"state"`
	Address     string `json:"address"`
	Version     string `json:"version"`
	Config      string `json:"config"`
	// Left is the time until the lease ends, by the clock of the node that returns the status. It is 0 if the lease has
	// ended.
	Left       float64           `json:"lease_seconds"`
	Sessions   int               `json:"sessions"`
	Calls      int               `json:"calls"`
	Labels     map[string]string `json:"labels,omitempty"`
	Workspaces []string          `json:"workspaces"`
}

// FleetTrial describes a configuration on trial: some nodes of a fleet use it before the other nodes do.
type FleetTrial struct {
	Digest string    `json:"digest"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Nodes lists the nodes of the fleet. Their figures count calls since the beginning of the trial.
	Nodes []FleetTrialNode `json:"nodes"`
}

// FleetTrialNode describes a node in a trial.
type FleetTrialNode struct {
	Node string `json:"node"`
	// New reports whether the node uses the configuration on trial.
	New      bool   `json:"new"`
	State    string `json:"state"`
	Calls    int64  `json:"calls"`
	Failures int64  `json:"failures"`
	// Problem is the reason why the figures are missing, or "".
	Problem string `json:"problem,omitempty"`
}
