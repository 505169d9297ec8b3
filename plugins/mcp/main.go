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
	flag.DurationVar(&limits.Start, "start-timeout", 30*time.Second, "maximum time for the server to start and to list its tools")
	flag.DurationVar(&limits.Call, "call-timeout", 2*time.Minute, "maximum time without a message from the server during a call")
	remote := flag.Bool("remote", false, "the server has a URL; otherwise the plugin starts a program")
	flag.Parse()
	sdk.Serve(mount.Plugin(limits, *remote, func() {
		// The host starts the plugin again for the next call. It also repeats calls that are safe to repeat. Exiting
		// makes sure that no state of the old server remains.
		os.Exit(1)
	}))
}
