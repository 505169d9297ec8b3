// Package files implements the arguments, results and messages of the tool "read". Package excerpt selects lines,
// package listing lists directories, and package media recognizes media files.
package files

import (
	"context"
	"fmt"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin.
const Version = "0.2.0"

// config is the operator's configuration of the plugin.
type config struct {
	MaxFile int64 `json:"max_file_mb,omitempty" default:"0" min:"0" max:"1048576" jsonschema:"The largest file that read takes, in MiB. 0 means no limit: of large files, parts are read."`
}

// plugin is the state that all calls share. It must not change after the first call.
type plugin struct{ maxFile int64 }

// Plugin returns the plugin that serves the tool "read".
func Plugin() sdk.Plugin {
	p := &plugin{}
	return sdk.Plugin{
		Name: "read", Version: Version, Tools: []sdk.Tool{p.readTool()}, OneProcessor: true,
		Needs: &sdk.Needs{Read: sdk.Required},
		Config: sdk.NewConfig(func(_ context.Context, c config, _ sdk.Setup) error {
			p.maxFile = c.MaxFile << 20
			return nil
		}),
	}
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
