package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/bench/internal/mcpstdio"
)

// manyMounts is the number of mounted servers of a large configuration.
const manyMounts = 70

// mountedServers measures the time until the first list of tools with many mounted servers: at the first start, which starts
// all of them, and with the kept descriptions. It compares both with the time without mounted servers.
func mountedServers(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(dir)) //nolint:errcheck // a temporary directory
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	alone, err := mountedFilesystem(bin, dir, "")
	if err != nil {
		return err
	}
	config := alone.Args[2]
	field, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	block := strings.TrimPrefix(string(field), "bundled = false\n")
	configs := map[string]string{"none": "", "many": ""} // both have the bundled tools
	for i := range manyMounts {
		configs["many"] += strings.Replace(block, `"files"`, fmt.Sprintf(`"files%d"`, i), 1)
	}
	list := func(name, state string) (time.Duration, error) {
		if err := os.WriteFile(config, []byte(configs[name]), 0o600); err != nil {
			return 0, err
		}
		return firstList(ctx, func() (*exec.Cmd, error) {
			return exec.Command(filepath.Join(bin, "toolhost"), "--config", config, "--workspace", dir, "--state", state, "mcp"), nil //nolint:gosec // built here
		})
	}
	state := stateOf(dir) + "-mounts"
	first, err := list("many", state)
	if err != nil {
		return err
	}
	var kept, none []time.Duration
	for range 7 {
		k, err := list("many", state)
		if err != nil {
			return err
		}
		n, err := list("none", state)
		if err != nil {
			return err
		}
		kept, none = append(kept, k), append(none, n)
	}
	single, err := oneStart(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first list, %d servers started\t%s\tone server directly %s\tratio %.1f for each server\n", manyMounts, millis(first), millis(single), ratio(first, single)/manyMounts)
	fmt.Fprintf(out, "list of all tools with kept descriptions\t%s\twithout servers %s\tratio %.1f\n", millis(median(kept)), millis(median(none)), ratio(median(kept), median(none)))
	return nil
}

// oneStart returns the median time until the first list of the file server itself.
func oneStart(ctx context.Context, dir string) (time.Duration, error) {
	var all []time.Duration
	for range 7 {
		took, err := firstList(ctx, func() (*exec.Cmd, error) { return mcpstdio.Filesystem(dir) })
		if err != nil {
			return 0, err
		}
		all = append(all, took)
	}
	return median(all), nil
}
