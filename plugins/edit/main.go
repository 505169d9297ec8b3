// Command edit is the plugin that changes files: edit and write.
package main

import (
	"toolhost.dev/sdk"

	"toolhost.dev/plugins/edit/editor"
)

func main() { sdk.Serve(editor.Plugin()) }
