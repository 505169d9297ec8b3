// Package snippets implements the tools snippet_save, snippet_load, snippet_list and snippet_delete. Package library
// stores the snippets.
package snippets

import (
	"context"

	"toolhost.dev/plugins/snippet/library"
	"toolhost.dev/sdk"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// config is the configuration that the operator sets for the plugin.
type config struct {
	Versions int `json:"versions,omitempty" default:"20" min:"1" max:"1000" jsonschema:"The number of versions kept of each snippet. Older versions are deleted."`
	MaxMB    int `json:"max_mb,omitempty" default:"256" min:"1" max:"65536" jsonschema:"The maximum size, in MiB, of all versions of all snippets together. Further snippets are refused."`
}

// tools is the state that all calls share. It must not change after the first call.
type tools struct{ lib *library.Library }

// Plugin returns the plugin. Before it is configured, it stores snippets in memory.
func Plugin() sdk.Plugin {
	t := &tools{library.Open("", library.Limits{})}
	return sdk.Plugin{
		Name: "snippet", Version: Version,
		Tools: []sdk.Tool{t.saveTool(), t.loadTool(), t.listTool(), t.deleteTool()},
		Needs: &sdk.Needs{},
		Config: sdk.NewConfig(func(_ context.Context, c config, s sdk.Setup) error {
			t.lib = library.Open(s.StateDir, library.Limits{Versions: c.Versions, Bytes: int64(c.MaxMB) << 20})
			return nil
		}),
		Close: func() { _ = t.lib.Close() },
	}
}
