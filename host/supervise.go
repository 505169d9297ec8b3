package host

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
)

// BranchInfo describes a branch.
type BranchInfo = engine.BranchInfo

// Branches returns the branches that a principal can see: its own, and those of the principals that it supervises.
func (h *Host) Branches(who *Principal) ([]BranchInfo, error) { return h.engine.Branches(who) }

// BranchWithID returns a branch that a principal can see, with its changes and a diff of about limit bytes.
func (h *Host) BranchWithID(who *Principal, id string, limit int) (BranchInfo, []BranchChange, string, error) {
	return h.engine.BranchWithID(who, id, limit)
}

// ApplyBranchWithID applies a branch that a principal can see. It has the conditions of [Host.ApplyBranch]. The caller must
// check that the principal may do it.
func (h *Host) ApplyBranchWithID(ctx context.Context, who *Principal, id string, stopJobs bool) (*BranchOutcome, error) {
	return h.engine.ApplyBranchWithID(ctx, who, id, stopJobs)
}

// DiscardBranchWithID removes a branch that a principal can see. It has the conditions of [Host.ApplyBranchWithID].
func (h *Host) DiscardBranchWithID(ctx context.Context, who *Principal, id string) error {
	return h.engine.DiscardBranchWithID(ctx, who, id)
}

// Rollout carries out an action on the rollout of a plugin: "promote", "pause", "resume" or "abort". The audit log names the
// principal by.
func (h *Host) Rollout(plugin, action string, by *Principal) error {
	return h.engine.Rollout(plugin, action, by.Name)
}

// Renew applies changed pins and approvals of plugins. The audit log names the principal by.
func (h *Host) Renew(ctx context.Context, by *Principal) (*Reload, error) {
	return h.engine.Renew(ctx, by.Name)
}

// AskQueue contains open asks that people can answer through another host.
type AskQueue = engine.AskQueue

// OfferAsks lets people answer the asks of this host through another host of the same user with the same state directory.
func (h *Host) OfferAsks(q AskQueue) { h.engine.OfferAsks(q) }

// Supervised reports whether people can answer asks of this host through another host that runs now.
func (h *Host) Supervised(ctx context.Context) bool { return h.engine.Supervised(ctx) }

// AsksOfOthers returns the open asks of the other hosts by their process ids, in the format of GET /v1/asks.
func (h *Host) AsksOfOthers(ctx context.Context) map[int]json.RawMessage {
	return h.engine.AsksOfOthers(ctx)
}

// AnswerOther answers an ask of another host. The body is that of an answer over HTTP, with the id of the ask and the name of
// the principal that answers in the fields id and by.
func (h *Host) AnswerOther(ctx context.Context, pid int, body json.RawMessage) error {
	return h.engine.AnswerOther(ctx, pid, body)
}

// NeededLogin returns the field whose login at its remote MCP server would remove the cause of a failed call, and the scopes
// that the login lacks. The field is "" for other results. See the command "toolhost mcp login".
func NeededLogin(res *tool.Result) (field string, scopes []string) { return engine.NeededLogin(res) }

// LoggedIn makes the host use logins at remote MCP servers that were saved just now. Without LoggedIn, the host uses them
// within seconds.
func (h *Host) LoggedIn(ctx context.Context) { h.engine.LoggedIn(ctx) }
