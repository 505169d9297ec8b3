// Command snippet is the plugin that serves the tools snippet_save, snippet_load, snippet_list and snippet_delete.
package main

import (
	"toolhost.dev/plugins/snippet/snippets"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(snippets.Plugin()) }
