// Command mcp is the plugin that serves the tools of one MCP server as its own: what a
// field block with an mcp block runs.
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
		// The host starts the plugin again for the next call, and makes calls that are safe to
		// repeat once more. Nothing of the old server is left to be in the way.
		os.Exit(1)
	}))
}
