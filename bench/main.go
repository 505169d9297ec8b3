// Command bench measures toolhost and its competitors in one run. It prints ratios, because ratios depend less on the
// machine than absolute times.
//
//	bench wire      compares three ways of sending calls over a go-plugin connection
//	bench budget    splits the processor time of a read over MCP by the part that uses it
//	bench call      compares a read through the whole host with a bare echo and an MCP server
//	bench cold      compares a cold start of the host with that of a bare plugin
//	bench shim      compares a tool used as a program in a shell with /bin/true
//	bench shell     compares a native command through the host with bash itself, also for 1 GiB of output
//	bench sandbox   compares the start of plugins under each sandbox backend
//	bench gate      compares spawns and go build behind the exec gate with those of a plugin without a sandbox
//	bench swap      measures calls while a plugin is replaced 100 times, and while plugins are killed
//	bench rollout   measures how much shadow calls of a rollout slow down the calls that are served
//	bench console   measures how much a viewer of the web console slows down calls
//	bench edit      measures the success and the speed of the edits in the file TOOLHOST_EDIT_CORPUS
//	bench mcp       compares a read through toolhost mcp with an MCP file server, using the same client
//	bench mounts    measures the first list of tools with 70 mounted servers
//	bench scheduler measures the scheduler's overhead per call
//	bench sessions  measures reads beside a running command, and in 1000 sessions
//	bench fleet     compares calls that a node forwards with calls at the owner of the session, and measures takeovers
//	bench search    compares grep and glob on a warm index with ripgrep, and measures code_query
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// suite is a group of measurements. The argument "bin" of the function "run" is the directory of the binaries.
type suite struct {
	name string
	run  func(ctx context.Context, bin string) error
}

var suites = []suite{{"wire", wire}, {"budget", budget}, {"call", wholeCall}, {"cold", cold}, {"shim", shims}, {"shell", shell}, {"edit", edit}, {"search", searching}, {"sandbox", confined}, {"gate", gated}, {"branch", branched}, {"mcp", overMCP}, {"mounts", mountedServers}, {"swap", swaps}, {"rollout", rollouts}, {"console", consoles}, {"scheduler", scheduling}, {"sessions", sessionLoad}, {"fleet", fleets}}

func main() {
	bin, err := filepath.Abs("bin")
	if err != nil {
		fatal(err)
	}
	chosen := os.Args[1:]
	for _, name := range chosen {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			var names []string
			for _, s := range suites {
				names = append(names, s.name)
			}
			fatal(fmt.Errorf("unknown suite %q; use one of %s", name, strings.Join(names, ", ")))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) // after a signal, suites must end their processes
	context.AfterFunc(ctx, stop)                                                             // a second signal ends the program at once
	for _, s := range suites {
		if len(chosen) > 0 && !slices.Contains(chosen, s.name) {
			continue
		}
		fmt.Printf("== %s\n", s.name)
		if err := s.run(ctx, bin); err != nil {
			fatal(fmt.Errorf("%s: %w", s.name, err))
		}
		fmt.Println()
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
