// Command read is the plugin that serves the tool "read".
package main

import (
	"toolhost.dev/plugins/read/files"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(files.Plugin()) }
