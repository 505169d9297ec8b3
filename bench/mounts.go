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

// mountedServers measures the time from the start of a host with many mounted servers to the first list of tools. It
// compares this time with the time of a host without mounted servers. At its first start, the host must start all
// servers. At later starts, it uses the saved descriptions of their tools. The later starts are measured both with all
// tools and with a lazy endpoint.
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
	const endpoint = "endpoint \"lazy\" {\n  mode = \"lazy\"\n}\n"
	configs := map[string]string{"none": endpoint, "many": endpoint} // both configurations also contain the bundled tools
	// Use different settings, so that the host keeps a separate description of each server.
	for i := range manyMounts {
		configs["many"] += strings.NewReplacer(`"files"`, fmt.Sprintf(`"files%d"`, i), "mcp { command", fmt.Sprintf("mcp {\n    env = { NUMBER = \"%d\" }\n    command", i), "] }\n}", "]\n  }\n}").Replace(block)
	}
	list := func(name, state string, args ...string) (time.Duration, error) {
		if err := os.WriteFile(config, []byte(configs[name]), 0o600); err != nil {
			return 0, err
		}
		return firstList(ctx, func() (*exec.Cmd, error) {
			return exec.Command(filepath.Join(bin, "toolhost"), append([]string{"--config", config, "--workspace", dir, "--state", state, "mcp"}, args...)...), nil //nolint:gosec // built here
		})
	}
	state := stateOf(dir) + "-mounts"
	first, err := list("many", state)
	if err != nil {
		return err
	}
	var all, lazy comparison
	for range 7 {
		for _, c := range []struct {
			*comparison
			args []string
		}{{&all, nil}, {&lazy, []string{"--endpoint", "lazy"}}} {
			many, err := list("many", state, c.args...)
			if err != nil {
				return err
			}
			none, err := list("none", state, c.args...)
			if err != nil {
				return err
			}
			c.many, c.none = append(c.many, many), append(c.none, none)
		}
	}
	single, err := oneStart(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first list, %d servers started\t%s\tone server directly %s\tratio %.1f for each server\n", manyMounts, millis(first), millis(single), ratio(first, single)/manyMounts)
	for _, row := range []struct {
		name string
		comparison
		limit string
	}{{"all tools", all, ""}, {"a lazy endpoint", lazy, "at most 1.20\t" + verdict(lazy.ratio() <= 1.2)}} {
		fmt.Fprintf(out, "list of %s with kept descriptions\t%s\twithout servers %s\tratio %.2f\t%s\n", row.name, millis(median(row.many)), millis(median(row.none)), row.ratio(), row.limit)
	}
	return nil
}

// comparison contains the times until the first list of tools, with many mounted servers and without mounted servers.
type comparison struct{ many, none []time.Duration }

func (c comparison) ratio() float64 { return ratio(median(c.many), median(c.none)) }

// oneStart returns the median time from the start of a file server to its list of tools. The file server runs without a
// host.
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
