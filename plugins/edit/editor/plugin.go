// Package editor holds the tools of the edit plugin: edit and write. Where an edit
// belongs in a file is found by package strategy; what may be changed at all is said by
// package validate; save.go is the one place that writes.
package editor

import (
	"toolhost.dev/sdk"
)

// Version of the plugin.
const Version = "0.2.0"

// Plugin describes the plugin.
func Plugin() sdk.Plugin {
	e := &editor{}
	return sdk.Plugin{Name: "edit", Version: Version, Tools: []sdk.Tool{e.editTool(), writeTool()}, Config: sdk.NewConfig(e.configure)}
}

// editor is the settings that all calls share; they are set before the first.
type editor struct{ rules []rule }
