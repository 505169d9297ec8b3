// Command renamed serves the tools of the plugin bash under other names. In tests of the host, it is the plugin of
// somebody else.
package main

import (
	"toolhost.dev/plugins/bash/bash"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest"
)

func main() { sdk.Serve(tooltest.Renamed(bash.Plugin())) }
