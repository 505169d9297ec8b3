package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/bench/internal/mcpstdio"
)

// overMCP compares toolhost as an MCP server with a file server, using the same client for both. It measures a read of a
// 10 KB file, the same read through the host by the mounted file server, and the time from the start to the list of tools.
func overMCP(ctx context.Context, bin string) error {
	dir, err := sample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(dir)) //nolint:errcheck // a temporary directory
	file := filepath.Join(dir, sampleFile)
	toolhost := func() (*exec.Cmd, error) {
		return exec.Command(filepath.Join(bin, "toolhost"), "--workspace", dir, "--state", stateOf(dir), "mcp"), nil //nolint:gosec // built here
	}
	filesystem := func() (*exec.Cmd, error) { return mcpstdio.Filesystem(dir) }
	mounted := func() (*exec.Cmd, error) { return mountedFilesystem(bin, dir) }

	type server struct {
		command func() (*exec.Cmd, error)
		tool    string
		args    map[string]string
	}
	servers := []server{
		{toolhost, "read", map[string]string{"file_path": file}}, {filesystem, "read_text_file", map[string]string{"path": file}},
		{mounted, "files_read_text_file", map[string]string{"path": file}},
	}
	var reads []call
	for _, s := range servers {
		cmd, err := s.command()
		if err != nil {
			return err
		}
		client, err := mcpstdio.Start(ctx, cmd)
		if err != nil {
			return err
		}
		defer client.Stop()
		args, err := json.Marshal(s.args)
		if err != nil {
			return err
		}
		reads = append(reads, func() error {
			body, err := client.Call(ctx, s.tool, args)
			if err == nil && len(body) < fileSize {
				err = fmt.Errorf("%s gives %d bytes", s.tool, len(body))
			}
			return err
		})
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()                                    //nolint:errcheck // the terminal
	if _, err := contest(1, 300, reads...); err != nil { // this run is a warm-up
		return err
	}
	d, err := contest(20, 50, reads...)
	if err != nil {
		return err
	}
	ours, theirs := median(d[0]), median(d[1])
	fmt.Fprintf(out, "read 10 KB, p50\ttoolhost mcp %s\tserver-filesystem %s\tratio %.2f\tat most 0.55\t%s\n", micros(ours), micros(theirs), ratio(ours, theirs), verdict(ratio(ours, theirs) <= 0.55))
	relayed := median(d[2])
	fmt.Fprintf(out, "the same by the mounted server, p50\ttoolhost mcp %s\tserver-filesystem %s\tratio %.2f\tat most 1.50\t%s\n", micros(relayed), micros(theirs), ratio(relayed, theirs), verdict(ratio(relayed, theirs) <= 1.5))
	for _, callers := range []int{1, 16} {
		r, err := rates(callers, 5, time.Second, reads[:2]...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "read 10 KB, %d callers\ttoolhost mcp %.0f/s\tserver-filesystem %.0f/s\tratio %.2f\tat least 2.00\t%s\n", callers, r[0], r[1], r[0]/r[1], verdict(r[0]/r[1] >= 2))
	}
	var lists [2][]time.Duration
	for range 15 {
		for i, s := range servers[:2] {
			took, err := firstList(ctx, s.command)
			if err != nil {
				return err
			}
			lists[i] = append(lists[i], took)
		}
	}
	ours, theirs = median(lists[0]), median(lists[1])
	fmt.Fprintf(out, "first tools/list from nothing\ttoolhost mcp %s\tserver-filesystem %s\tratio %.2f\tunder 60 ms\t%s\n", millis(ours), millis(theirs), ratio(ours, theirs), verdict(ours < 60*time.Millisecond))
	return nil
}

// mountedFilesystem returns the command of a host that mounts the file server.
func mountedFilesystem(bin, dir string) (*exec.Cmd, error) {
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
	return exec.Command(filepath.Join(bin, "toolhost"), "--config", config, "--workspace", dir, "--state", stateOf(dir)+"-mounted", "mcp"), nil //nolint:gosec // built here
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
