// Command renamed serves the tools of the plugin web under other names. In tests of the host, it is the plugin of
// somebody else.
package main

import (
	"toolhost.dev/plugins/web/fetch"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest"
)

func main() { sdk.Serve(tooltest.Renamed(fetch.Plugin())) }
