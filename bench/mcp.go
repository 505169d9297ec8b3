package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"toolhost.dev/bench/internal/mcpstdio"
)

// beforeVariable is an environment variable with the directory of the binaries of an earlier build. If it is set,
// overMCP alternately measures these binaries and the current ones.
const beforeVariable = "TOOLHOST_BENCH_BEFORE"

// fileServer is an MCP server that reads the sample file.
type fileServer struct {
	name    string
	command func() (*exec.Cmd, error)
	tool    string
	args    map[string]string
	mounted bool // whether the server is a host that passes the calls on to a mounted file server
	pid     int
	read    call // calls the tool of the started server
	reads   atomic.Int64
}

// overMCP compares toolhost as an MCP server with a file server, using the same client for both. It measures a read of
// a 10 KB file, and the same read by a file server that is mounted in a host. It also measures the time from the start
// of a server until the client has the server's list of tools.
func overMCP(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(dir)) //nolint:errcheck // a temporary directory
	file := filepath.Join(dir, sampleFile)
	peer := func() (*exec.Cmd, error) { return mcpstdio.Filesystem(dir) }
	servers := []*fileServer{{name: "server-filesystem", command: peer, tool: "read_text_file", args: map[string]string{"path": file}}}
	builds := map[string]string{"toolhost": bin}
	if before := os.Getenv(beforeVariable); before != "" {
		builds["before"] = before
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(builds))) {
		bin, state := builds[name], stateOf(dir)+"-"+name
		own := func() (*exec.Cmd, error) {
			return exec.Command(filepath.Join(bin, "toolhost"), "--workspace", dir, "--state", state, "mcp"), nil //nolint:gosec // built here
		}
		mounted := func() (*exec.Cmd, error) { return mountedFilesystem(bin, dir, state+"-mounted") }
		servers = append(servers,
			&fileServer{name: name, command: own, tool: "read", args: map[string]string{"file_path": file}},
			&fileServer{name: name + ", mounted server", command: mounted, tool: "files_read_text_file", args: map[string]string{"path": file}, mounted: true})
	}
	for _, s := range servers {
		client, err := s.start(ctx)
		if err != nil {
			return err
		}
		defer client.Stop()
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	if err := compareLatencies(out, servers); err != nil {
		return err
	}
	for _, callers := range []int{1, 16} {
		if err := compareRates(out, callers, servers); err != nil {
			return err
		}
	}
	return compareLists(ctx, out, servers[:2])
}

// start starts the server.
func (s *fileServer) start(ctx context.Context) (*mcpstdio.Client, error) {
	cmd, err := s.command()
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(s.args)
	if err != nil {
		return nil, err
	}
	client, err := mcpstdio.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	s.pid = cmd.Process.Pid
	s.read = func() error {
		body, err := client.Call(ctx, s.tool, args)
		if err == nil && len(body) < fileSize {
			err = fmt.Errorf("%s gives %d bytes", s.tool, len(body))
		}
		s.reads.Add(1)
		return err
	}
	return client, nil
}

// compareLatencies compares the latency of reads from each server with the latency of reads from the first server.
func compareLatencies(out io.Writer, servers []*fileServer) error {
	var reads []call
	for _, s := range servers {
		reads = append(reads, s.read)
	}
	if _, err := contest(1, 300, reads...); err != nil { // this run is a warm-up
		return err
	}
	d, err := contest(20, 50, reads...)
	if err != nil {
		return err
	}
	peer := median(d[0])
	for i, s := range servers[1:] {
		limit := 0.55
		if s.mounted {
			limit = 1.5
		}
		ours := median(d[i+1])
		fmt.Fprintf(out, "read 10 KB, p50\t%s %s\t%s %s\tratio %.2f\tat most %.2f\t%s\n", s.name, micros(ours), servers[0].name, micros(peer), ratio(ours, peer), limit, verdict(ratio(ours, peer) <= limit))
	}
	return nil
}

// compareRates measures how many reads per second each server performs for concurrent callers, and compares this rate
// with the rate of the first server. It also prints the processor time of a read, because this time depends less on
// other programs that run on the machine.
func compareRates(out io.Writer, callers int, servers []*fileServer) error {
	const rounds = 5
	all := make([][]float64, len(servers))
	used := make([]processorTime, len(servers))
	for _, s := range servers {
		s.reads.Store(0)
	}
	for range rounds {
		for i, s := range servers {
			before, err := usedBy(s.pid)
			if err != nil {
				return err
			}
			r, err := rate(callers, time.Second, s.read)
			if err != nil {
				return err
			}
			after, err := usedBy(s.pid)
			if err != nil {
				return err
			}
			all[i] = append(all[i], r)
			used[i].own += after.own - before.own
			used[i].descendants += after.descendants - before.descendants
		}
	}
	for i := range all {
		slices.Sort(all[i])
	}
	peer := all[0][rounds/2]
	for i, s := range servers {
		each := func(d time.Duration) string { return micros(d / time.Duration(s.reads.Load())) }
		ours := all[i][rounds/2]
		fmt.Fprintf(out, "read 10 KB, %d callers\t%s %.0f/s\tprocessor time %s, of descendants %s", callers, s.name, ours, each(used[i].own), each(used[i].descendants))
		switch {
		case i == 0 || s.mounted:
			fmt.Fprintf(out, "\tratio %.2f\n", ours/peer)
		default:
			fmt.Fprintf(out, "\tratio %.2f\tat least 2.00\t%s\n", ours/peer, verdict(ours/peer >= 2))
		}
	}
	return nil
}

// compareLists compares the times from the start of a server to the receipt of its list of tools.
func compareLists(ctx context.Context, out io.Writer, servers []*fileServer) error {
	var lists [2][]time.Duration
	for range 15 {
		for i, s := range servers {
			took, err := firstList(ctx, s.command)
			if err != nil {
				return err
			}
			lists[i] = append(lists[i], took)
		}
	}
	theirs, ours := median(lists[0]), median(lists[1])
	fmt.Fprintf(out, "first tools/list from nothing\t%s %s\t%s %s\tratio %.2f\tunder 60 ms\t%s\n", servers[1].name, millis(ours), servers[0].name, millis(theirs), ratio(ours, theirs), verdict(ours < 60*time.Millisecond))
	return nil
}

// mountedFilesystem returns the command of a host that mounts the file server.
func mountedFilesystem(bin, dir, state string) (*exec.Cmd, error) {
	server, err := mcpstdio.Filesystem(dir)
	if err != nil {
		return nil, err
	}
	node, err := filepath.EvalSymlinks(server.Path)
	if err != nil {
		return nil, err
	}
	packages, _, _ := strings.Cut(server.Args[1], "/node_modules/")
	config := filepath.Join(filepath.Dir(dir), "mounted.hcl")
	text := fmt.Sprintf("bundled = false\nfield \"files\" {\n  sandbox { read = [%q, %q] }\n  mcp { command = [%q, %q, %q] }\n}\n", packages, filepath.Dir(filepath.Dir(node)), node, server.Args[1], dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return exec.Command(filepath.Join(bin, "toolhost"), "--config", config, "--workspace", dir, "--state", state, "mcp"), nil //nolint:gosec // built here
}

// firstList returns the time from the start of a server to the receipt of its list of tools.
func firstList(ctx context.Context, command func() (*exec.Cmd, error)) (time.Duration, error) {
	cmd, err := command()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	client, err := mcpstdio.Start(ctx, cmd)
	if err != nil {
		return 0, err
	}
	defer client.Stop()
	if _, err := client.List(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}
