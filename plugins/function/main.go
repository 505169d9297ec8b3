// Command function is the plugin that serves functions of other definitions as tools: what a
// field block with function blocks runs.
package main

import (
	"flag"
	"time"

	"toolhost.dev/plugins/function/functions"
	"toolhost.dev/sdk"
)

func main() {
	limit := flag.Duration("call-timeout", 2*time.Minute, "how long a call may take")
	flag.Parse()
	sdk.Serve(functions.Plugin(*limit))
}
