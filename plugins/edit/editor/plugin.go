// Package editor holds the tools of the edit plugin: edit, write, undo and redo. Where an edit
// belongs in a file is found by package strategy; what may be changed at all is said by
// package validate; package commit is the one place that writes, and package history keeps
// what it takes to undo.
package editor

import (
	"toolhost.dev/sdk"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
)

// Version of the plugin.
const Version = "0.2.0"

// Plugin describes the plugin.
func Plugin() sdk.Plugin {
	e := &editor{Committer: commit.Committer{History: history.Open("", 0)}} // until it is configured
	return sdk.Plugin{
		Name: "edit", Version: Version,
		Tools:  []sdk.Tool{e.editTool(), e.writeTool(), e.undoTool(), e.redoTool()},
		Needs:  &sdk.Needs{Read: sdk.Required, Write: sdk.Required},
		Config: sdk.NewConfig(e.configure),
		Close:  func() { _ = e.History.Close() },
	}
}

// editor is what all calls share, set before the first. It keeps nothing of a session itself.
type editor struct {
	commit.Committer
	rules []rule
}
