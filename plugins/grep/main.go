// Command grep is the plugin that serves the tools grep, glob, list and code_query.
package main

import (
	"toolhost.dev/plugins/grep/finder"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(finder.Plugin()) }
