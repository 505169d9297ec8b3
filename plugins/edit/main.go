// Command edit is the plugin that serves the tools edit, write, undo, redo, branch and notebook_edit.
package main

import (
	"toolhost.dev/sdk"

	"toolhost.dev/plugins/edit/editor"
)

func main() { sdk.Serve(editor.Plugin()) }
