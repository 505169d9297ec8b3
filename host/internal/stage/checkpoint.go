package stage

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/policy"
)

// Checkpoint makes a checkpoint of the session's branch before a call that can change files. In a session with
// checkpoints, a call of the tool with the role "undo" restores a checkpoint. Therefore it also undoes the changes that
// commands made. The plugin answers the call if the rules do not judge it as an edit, because the restored files
// change. The argument "mask" masks secrets.
func Checkpoint(mask func(string) string) Stage {
	return Stage{Name: "checkpoint", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			checkpoints := c.Request.Session.Checkpoints
			if checkpoints == nil || c.Request.Exchange != nil {
				return next(ctx, c)
			}
			e, inside := c.Identity.Tool, c.Identity.Depth > 0
			if e.Has(tool.RoleUndo) && c.Question().Kind() == policy.KindEdit {
				u := call.Undo{Inside: inside, Name: e.FullName()}
				if json.Unmarshal(c.Decision.Sent.Arguments, &u) == nil {
					if res := checkpoints.Undo(ctx, u); res != nil {
						return res
					}
				}
			}
			if inside || claim.ChangesNothing(c) {
				return next(ctx, c)
			}
			note := checkpoints.Before(c.Request.ID, claim.Label(mask, e.FullName(), claim.Subject(c)))
			res := next(ctx, c)
			if note != "" {
				call.NoteHint(res, note)
			}
			return res
		}
	}}
}
