// Command renamed serves the tools of the plugin todo under other names. In tests of the host, it is the plugin of
// somebody else.
package main

import (
	"toolhost.dev/plugins/todo/todos"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tooltest"
)

func main() { sdk.Serve(tooltest.Renamed(todos.Plugin())) }
