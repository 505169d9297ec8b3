package host

import (
	"context"

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
func (h *Host) ApplyBranchWithID(ctx context.Context, who *Principal, id string) (*BranchOutcome, error) {
	return h.engine.ApplyBranchWithID(ctx, who, id)
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
