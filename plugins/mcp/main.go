// Command mcp is the plugin that serves the tools of one MCP server. The host starts it for a field block that contains
// an mcp block.
package main

import (
	"flag"
	"os"
	"time"

	"toolhost.dev/plugins/mcp/mount"
	"toolhost.dev/sdk"
)

func main() {
	limits := mount.Limits{}
	flag.DurationVar(&limits.Start, "start-timeout", 30*time.Second, "how long the server may take to start and to list its tools")
	flag.DurationVar(&limits.Call, "call-timeout", 2*time.Minute, "how long a call may take without a sign of life")
	remote := flag.Bool("remote", false, "the server is reached by its URL; otherwise it is a program that is started")
	flag.Parse()
	sdk.Serve(mount.Plugin(limits, *remote, func() {
		// The host restarts the plugin for the next call, and repeats calls that are safe to repeat. Therefore no state
		// of the old server remains.
		os.Exit(1)
	}))
}
