// Package finder is the tools grep and glob: what a model says to them and hears from
// them. How a search works is in the packages beside it: query and locate go through
// a tree by walk, which leaves out what ignore and glob say; pattern reads what to
// search for (by syntax and automaton), and search finds it in a file.
package finder

import (
	"context"
	"fmt"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version of the plugin.
const Version = "0.1.0"

// Plugin gives the plugin.
func Plugin() sdk.Plugin {
	f := &finder{maxLine: 500}
	return sdk.Plugin{
		Name: "grep", Version: Version, Tools: []sdk.Tool{f.grepTool(), f.globTool()},
		Config: sdk.NewConfig(func(_ context.Context, c config, _ sdk.Setup) error {
			if c.MaxLine != nil {
				f.maxLine = *c.MaxLine
			}
			return nil
		}),
	}
}

// config is the operator's configuration of the plugin.
type config struct {
	MaxLine *int `json:"max_line,omitempty" min:"0" max:"100000" jsonschema:"The number of characters that grep shows of a line; what is around the match is shown of a longer one. 0: all of them. The default is 500."`
}

// finder is the settings that all calls share; they are set before the first.
type finder struct{ maxLine int }

// looking are the traits of both tools: they change nothing.
var looking = tool.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}

// count writes a number of things: "1 file", "2 files", "3 matches".
func count(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		return fmt.Sprintf("%d %ses", n, thing)
	case strings.HasSuffix(thing, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(thing, "y"))
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// withNotes puts the notes after the text, apart from it and each marked as none of it.
func withNotes(text string, notes []string) string {
	if len(notes) == 0 {
		return text
	}
	marked := "[note: " + strings.Join(notes, "]\n[note: ") + "]"
	if text == "" {
		return marked
	}
	return text + "\n\n" + marked
}
