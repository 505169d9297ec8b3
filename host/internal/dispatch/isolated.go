package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
)

// isolated is the client of a call that can lose no file of the workspace, because it runs in a branch. It accepts the
// permission requests about lost files, and records that somebody must confirm the apply of the branch.
type isolated struct {
	call.Client
	unasked  func() error
	accepted atomic.Bool
}

// Ask implements [call.Client].
func (c *isolated) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if !c.accepts(ask) {
		return c.Client.Ask(ctx, ask)
	}
	if err := c.unasked(); err != nil {
		return tool.Answer{}, err
	}
	c.accepted.Store(true)
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// accepts reports whether an ask is a permission request about lost files.
func (*isolated) accepts(ask tool.Ask) bool {
	return ask.Permission != nil && ask.Permission.Metadata[policy.OnlyFiles] == true
}

// answered returns the text of the audit log for a permission request that the client of a call accepted, or "".
func answered(c *Call) string {
	if client, ok := c.Client.(*isolated); ok && client.accepted.Load() {
		return fmt.Sprintf("at the apply of the branch %s", c.Request.Session.Branch)
	}
	return ""
}
