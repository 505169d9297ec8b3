// Command web is the plugin that serves the tool web_fetch.
package main

import (
	"toolhost.dev/plugins/web/fetch"
	"toolhost.dev/sdk"
)

func main() { sdk.Serve(fetch.Plugin()) }
