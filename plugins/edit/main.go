// Command edit is the plugin that serves the tools edit, write, undo and redo.
package main

import (
	"toolhost.dev/sdk"

	"toolhost.dev/plugins/edit/editor"
)

func main() { sdk.Serve(editor.Plugin()) }
