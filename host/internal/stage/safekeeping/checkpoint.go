package safekeeping

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/notes"
	"toolhost.dev/host/internal/stage"
)

// Undo is the name of the bundled tool that undoes earlier changes.
const Undo = "undo"

// Checkpoint makes a checkpoint of the session's branch before a call that can change files. In a session with
// checkpoints, the tool "undo" restores a checkpoint. Therefore the tool also undoes the changes that commands made.
// The argument "mask" masks secrets.
func Checkpoint(mask func(string) string) stage.Stage {
	return stage.Stage{Name: "checkpoint", Wrap: func(next stage.Handler) stage.Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			checkpoints := c.Request.Session.Checkpoints
			if checkpoints == nil || c.Request.Exchange != nil {
				return next(ctx, c)
			}
			e, inside := c.Identity.Tool, c.Identity.Depth > 0
			if e.Bundled && e.FullName() == Undo {
				u := call.Undo{Inside: inside}
				if json.Unmarshal(c.Decision.Sent.Arguments, &u) == nil {
					if res := checkpoints.Undo(ctx, u); res != nil {
						return res
					}
				}
			}
			if inside || e.Definition.Traits.ReadOnly || claim.Controls(e) || claim.ReadsOnly(c) {
				return next(ctx, c)
			}
			note := checkpoints.Before(c.Request.ID, claim.Label(mask, e.FullName(), claim.Subject(c)))
			res := next(ctx, c)
			if note != "" {
				notes.Hint(res, note)
			}
			return res
		}
	}}
}
