// Package editor implements the tools of the plugin edit: edit, write, undo, redo, branch and notebook_edit. Package
// strategy finds the place of an edit, package notebook changes cells, and package validate checks whether a file can
// be changed. Only package commit writes files. Package history stores the data for undo.
package editor

import (
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
)

// Version is the version of the plugin.
const Version = "0.3.0"

// Plugin returns the plugin with its six tools.
func Plugin() sdk.Plugin {
	e := &editor{Committer: commit.Committer{History: history.Open("", 0)}} // keep the history in memory until configure opens the stored history
	return sdk.Plugin{
		Name: "edit", Version: Version,
		Tools:  []sdk.Tool{e.editTool(), e.writeTool(), e.undoTool(), e.redoTool(), e.branchTool(), e.notebookTool()},
		Needs:  &sdk.Needs{Read: sdk.Required, Write: sdk.Required},
		Config: sdk.NewConfig(e.configure),
		Keeps:  []tool.Kept{{Kind: tool.KeptUndo, Files: []string{"history.db*", "contents"}, Age: "undo_age"}},
		Close:  func() { _ = e.History.Close() },
	}
}

// editor contains the state that all calls share. It does not change after the first call starts, and it contains no
// session data.
type editor struct {
	commit.Committer
	rules []rule
	// maxFile is the operator's limit on the size of a changed or created file, in bytes. Zero means that only the
	// limit of the SDK applies.
	maxFile int64
}
