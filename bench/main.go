// Command bench measures toolhost and its competitors in one run. It prints ratios, because they depend less on the
// machine than absolute times.
//
//	bench wire    the ways to carry a call over a go-plugin connection
//	bench call    a read through the whole host beside a bare echo and an MCP server
//	bench cold    the start from nothing beside that of a bare plugin
//	bench shim    a tool used as a program in a shell beside /bin/true
//	bench shell   a native command through the host beside bash itself, and 1 GiB of output
//	bench sandbox the start of plugins under each backend of the sandbox
//	bench swap    calls while a plugin is replaced 100 times, and while plugins are killed
//	bench edit    what edits make of the cases that TOOLHOST_EDIT_CORPUS names, and their speed
//	bench mcp     a read through toolhost mcp beside an MCP file server, by the same client
//	bench scheduler what the order of calls and their limits add to a call
//	bench search  grep and glob from a warm index beside ripgrep, and code_query
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// suite is a group of measurements. bin is the directory of the binaries.
type suite struct {
	name string
	run  func(ctx context.Context, bin string) error
}

var suites = []suite{{"wire", wire}, {"call", wholeCall}, {"cold", cold}, {"shim", shims}, {"shell", shell}, {"edit", edit}, {"search", searching}, {"sandbox", confined}, {"mcp", overMCP}, {"swap", swaps}, {"scheduler", scheduling}}

func main() {
	bin, err := filepath.Abs("bin")
	if err != nil {
		fatal(err)
	}
	chosen := os.Args[1:]
	for _, s := range suites {
		if len(chosen) > 0 && !slices.Contains(chosen, s.name) {
			continue
		}
		fmt.Printf("== %s\n", s.name)
		if err := s.run(context.Background(), bin); err != nil {
			fatal(fmt.Errorf("%s: %w", s.name, err))
		}
		fmt.Println()
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
