// Command replay is the plugin that answers calls from a tape. For the commands "toolhost serve --from-tape" and
// "toolhost mcp --from-tape", the host starts it once for each plugin on the tape.
package main

import (
	"flag"
	"fmt"
	"os"

	"toolhost.dev/plugins/replay/player"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tape"
)

func main() {
	path := flag.String("tape", "", "the tape")
	name := flag.String("plugin", "", "the plugin on the tape whose calls are answered")
	// The host caches the description of a plugin by the plugin's arguments. This argument changes with the tape, so
	// that the host does not use the description of an earlier tape.
	sum := flag.String("sum", "", "the sum of the tape; another tape is refused")
	flag.Parse()
	t, err := tape.Open(*path)
	if err == nil && *sum != "" && t.Sum != *sum {
		err = fmt.Errorf("the tape %s changed; start the host again", *path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sdk.Serve(player.Plugin(t, *name))
}
