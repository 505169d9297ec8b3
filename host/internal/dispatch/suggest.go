package dispatch

import (
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/router"
)

// commandNotFound is the shell's exit status for an unknown command.
const commandNotFound = 127

// suggest adds the name of a similar tool to the result of a command that the shell does not know.
func (d *Dispatcher) suggest(c *Call, res *tool.Result) {
	cmd := c.Identity.Command
	if cmd.Layer != router.Native || !cmd.Simple || res.Error == nil || res.Error.Code != commandNotFound {
		return
	}
	similar := suggest.DidYouMean(firstWord(cmd), d.Registry.AgentNames())
	if similar == "" {
		return
	}
	note := "No tool has that name either." + similar
	e := *res.Error
	e.Message = strings.TrimRight(e.Message, "\n") + "\n" + note
	res.Error = &e
	if _, other := res.Metadata["note"]; !other { // a frontend shows the note beside the shell's own output
		annotate(res, "note", note)
	}
}
