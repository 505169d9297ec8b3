// Package files implements the tool read: its arguments, results and messages. Package excerpt selects lines, package
// listing lists directories, and package media recognizes media files.
package files

import (
	"fmt"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin.
const Version = "0.2.0"

// Plugin returns the plugin that serves the tool read.
func Plugin() sdk.Plugin {
	return sdk.Plugin{Name: "read", Version: Version, Tools: []sdk.Tool{readTool()}, OneProcessor: true, Needs: &sdk.Needs{Read: sdk.Required}}
}

// looking holds the traits of the tool, which is read-only.
var looking = tool.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}

// count formats a number with a noun in singular or plural: "1 line", "2 lines".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := cutY(thing); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func cutY(s string) (string, bool) {
	if len(s) > 0 && s[len(s)-1] == 'y' {
		return s[:len(s)-1], true
	}
	return s, false
}
