// Command renamed serves the tools of the plugin edit under other names. In tests of the host, it is the plugin of
// somebody else.
package main

import (
	"toolhost.dev/plugins/edit/editor"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest"
)

func main() { sdk.Serve(tooltest.Renamed(editor.Plugin())) }
