package host

import (
	"context"
	"encoding/json"
	"net"

	"toolhost.dev/host/internal/engine"
	"toolhost.dev/sdk/tool"
)

// Principal is an authenticated caller with its rights, its workspaces and its tools. A principal does not change.
type Principal = engine.Principal

// Directory authenticates the clients of a server. It is safe for concurrent use, except for its fields, which must not
// change after the first request. See [Host.Directory].
type Directory = engine.Directory

// Secret is a token with the principal that it authenticates.
type Secret = engine.Secret

// The rights of principals.
const (
	RightCall       = engine.RightCall       // run tools
	RightAnswer     = engine.RightAnswer     // answer permission requests of other principals
	RightLog        = engine.RightLog        // read the status, the statistics and the asks
	RightAdminister = engine.RightAdminister // give answers that apply to later calls
)

// CodeWorkspace was the code of the error for a workspace that the principal may not use.
//
// Deprecated: Errors have the code of their kind. Use [Reason].
const CodeWorkspace = 403

// Directory returns a directory with the principals and issuers of the configuration, and with the tokens that
// "toolhost token create" made. Later changes of the configuration and of the tokens apply to it. The caller can set
// Secrets and Anonymous.
func (h *Host) Directory() *Directory { return h.engine.Directory() }

// LocalUser returns the principal of the user of this process, who has all rights.
func LocalUser() *Principal { return engine.LocalUser() }

// StartToken returns the principal of clients that know the token with which a server was started. It can call tools in
// the given workspaces, and read status and statistics. Without workspaces, it can only work in the workspace of the
// host. "DIR/*" means each directory directly inside DIR.
func StartToken(workspaces ...string) *Principal { return engine.StartToken(workspaces) }

// ApproverToken returns a principal that can answer the asks of all other principals, but cannot call tools.
func ApproverToken() *Principal { return engine.ApproverToken() }

// ConnContext returns a context for the requests of a connection, for use as [http.Server.ConnContext]. In requests
// over a Unix socket, [Directory.Authenticate] identifies the client by the user of its process.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return engine.ConnContext(ctx, conn)
}

// BranchInfo describes a branch.
type BranchInfo = engine.BranchInfo

// Branches returns the branches that a principal can see: its own branches, and the branches of principals that it
// supervises.
func (h *Host) Branches(who *Principal) ([]BranchInfo, error) { return h.engine.Branches(who) }

// BranchWithID returns a branch that a principal can see, with its changes and a diff of about limit bytes.
func (h *Host) BranchWithID(who *Principal, id string, limit int) (BranchInfo, []BranchChange, string, error) {
	return h.engine.BranchWithID(who, id, limit)
}

// ApplyBranchWithID applies a branch that a principal can see. The conditions of [Host.ApplyBranch] apply. The caller
// must check that the principal has the right to apply the branch.
func (h *Host) ApplyBranchWithID(ctx context.Context, who *Principal, id string,
	stopJobs bool) (*BranchOutcome, error) {
	return h.engine.ApplyBranchWithID(ctx, who, id, stopJobs)
}

// DiscardBranchWithID removes a branch that a principal can see. The conditions of [Host.ApplyBranchWithID] apply.
func (h *Host) DiscardBranchWithID(ctx context.Context, who *Principal, id string) error {
	return h.engine.DiscardBranchWithID(ctx, who, id)
}

// Rollout carries out an action on the rollout of a plugin: "promote", "pause", "resume" or "abort". The audit log
// names the principal by.
func (h *Host) Rollout(plugin, action string, by *Principal) error {
	return h.engine.Rollout(plugin, action, by.Name)
}

// Renew applies changed pins and approvals of plugins. The argument "by" is the principal for the audit log.
func (h *Host) Renew(ctx context.Context, by *Principal) (*Reload, error) {
	return h.engine.Renew(ctx, by.Name)
}

// AskQueue contains the open asks of a host. People can answer them through another host.
type AskQueue = engine.AskQueue

// OfferAsks lets people answer the asks of this host through another host of the same user with the same state
// directory.
func (h *Host) OfferAsks(q AskQueue) { h.engine.Siblings().OfferAsks(q) }

// Supervised reports whether people can answer asks of this host through another host that runs now.
func (h *Host) Supervised(ctx context.Context) bool { return h.engine.Siblings().Supervised(ctx) }

// AsksOfOthers returns the open asks of other hosts, in the format of GET /v1/asks. The keys are the process ids of the
// hosts.
func (h *Host) AsksOfOthers(ctx context.Context) map[int]json.RawMessage {
	return h.engine.Siblings().AsksOfOthers(ctx)
}

// AnswerOther answers an ask of another host. The body has the fields of an answer over HTTP. It also has the field
// "id" with the id of the ask, and the field "by" with the name of the principal that answers.
func (h *Host) AnswerOther(ctx context.Context, pid int, body json.RawMessage) error {
	return h.engine.Siblings().AnswerOther(ctx, pid, body)
}

// NeededLogin reports whether a call failed because a login at a remote MCP server is missing or lacks scopes. It
// returns the field with this server and the missing scopes. For all other results, the field is "". See the command
// "toolhost mcp login".
func NeededLogin(res *tool.Result) (field string, scopes []string) { return engine.NeededLogin(res) }

// LoggedIn makes the host use newly saved logins at remote MCP servers at once. Without LoggedIn, the host notices new
// logins after some seconds.
func (h *Host) LoggedIn(ctx context.Context) { h.engine.LoggedIn(ctx) }
