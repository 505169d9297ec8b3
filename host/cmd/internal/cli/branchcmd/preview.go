package branchcmd

import (
	"fmt"

	"toolhost.dev/host"
)

// Preview returns what a call with --preview changed, as text. It returns "" if the call did not run.
func Preview(res *host.Result) string {
	shown, _ := res.Metadata["preview"].(map[string]any)
	if shown == nil {
		return ""
	}
	token, _ := shown["token"].(string)
	if token == "" {
		return "[Preview: the command changes no files of the workspace.]"
	}
	return fmt.Sprintf("[Preview: nothing was changed yet. To make exactly these changes: toolhost branch apply %[1]s. To drop them: toolhost branch discard %[1]s. Only changes of files are held back: effects on the network or on other processes have already happened.]\n%[2]s", token, shown["diff"])
}
