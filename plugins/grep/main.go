// Command grep is the plugin that serves the tools grep, glob, list and code_query.
package main

import (
	"toolhost.dev/plugins/grep/finder"
	"toolhost.dev/plugins/grep/workers"
	"toolhost.dev/sdk"
)

func main() {
	workers.Spare()
	sdk.Serve(finder.Plugin())
}
