package dispatch

import (
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/notes"
	"toolhost.dev/host/internal/script"
)

// undoTool is the name of the bundled tool that goes back.
const undoTool = "undo"

// checkpoint makes a checkpoint of the session's branch before a call that can change files. In such a session, undo goes
// back to checkpoints, so that it also takes back what commands did.
func (d *Dispatcher) checkpoint() Stage {
	return Stage{Name: "checkpoint", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			checkpoints := c.Request.Session.Checkpoints
			if checkpoints == nil || c.Identity.Depth > 0 || c.Request.Exchange != nil {
				return next(ctx, c)
			}
			e := c.Identity.Tool
			if e.Bundled && e.FullName() == undoTool {
				var u call.Undo
				if json.Unmarshal(c.Decision.Sent.Arguments, &u) == nil {
					if res := checkpoints.Undo(u); res != nil {
						return res
					}
				}
			}
			if e.Definition.Traits.ReadOnly || controls(e) || readsOnly(c) {
				return next(ctx, c)
			}
			note := checkpoints.Before(c.Request.ID, d.label(e.FullName(), subjectOf(c)))
			res := next(ctx, c)
			if note != "" {
				notes.Hint(res, note)
			}
			return res
		}
	}}
}

// readsOnly reports whether a call runs only commands that change no file.
func readsOnly(c *Call) bool {
	if c.Identity.Tool.FullName() != call.Shell {
		return false
	}
	return script.ReadsOnly(textOf(c.Decision.Arguments["command"]), script.Options{Dir: c.Request.Session.Cwd})
}

// subjectOf returns the part of a call that a person recognizes: the command, or the first path.
func subjectOf(c *Call) string {
	if command := textOf(c.Decision.Arguments["command"]); command != "" {
		return command
	}
	for _, param := range pathParams(c.Identity.Tool) {
		if param.Path == "diff" {
			continue
		}
		for _, path := range textsOf(c.Decision.Arguments[param.Name]) {
			return path
		}
	}
	return ""
}
