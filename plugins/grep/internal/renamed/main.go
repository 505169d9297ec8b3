// Command renamed serves the tools of the plugin grep under other names. In tests of the host, it is the plugin of
// somebody else.
package main

import (
	"toolhost.dev/plugins/grep/finder"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest"
)

func main() { sdk.Serve(tooltest.Renamed(finder.Plugin())) }
