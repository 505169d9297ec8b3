package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"

	"toolhost.dev/bench/internal/bare"
	"toolhost.dev/bench/internal/mcpstdio"
)

const fileSize = 10 << 10

// wholeCall measures a read of a 10 KB file through a host in the same process. It compares this read with an echo of
// the same bytes by a bare plugin, and with a read by an MCP file server.
func wholeCall(ctx context.Context, bin string) error {
	h, dir, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	file := filepath.Join(dir, sampleFile)
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	echo, err := bare.Start(filepath.Join(bin, "bench", "bareplugin"))
	if err != nil {
		return err
	}
	defer echo.Stop()
	read := func() error {
		res := h.Run(ctx, host.Request{Command: "read sample.txt --limit 2000"}, nil)
		if !res.Success() {
			return res.Error
		}
		if len(res.Output) < fileSize-1 {
			return fmt.Errorf("read gives %d bytes", len(res.Output))
		}
		return nil
	}
	unary := func() error {
		_, err := echo.Unary(ctx, content)
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	d, err := contest(20, 200, read, unary)
	if err != nil {
		return err
	}
	r, u := median(d[0]), median(d[1])
	fmt.Fprintf(out, "read 10 KB, p50\thost %s\tbare unary echo %s\tratio %.2f\tat most 1.50\t%s\n", micros(r), micros(u), ratio(r, u), verdict(ratio(r, u) <= 1.5))

	server, err := mcpstdio.Filesystem(dir)
	if err != nil {
		return err
	}
	peer, err := mcpstdio.Start(ctx, server)
	if err != nil {
		return err
	}
	defer peer.Stop()
	args, err := json.Marshal(map[string]string{"path": file})
	if err != nil {
		return err
	}
	mcp := func() error {
		body, err := peer.Call(ctx, "read_text_file", args)
		if err == nil && len(body) < fileSize {
			err = fmt.Errorf("the server gives %d bytes", len(body))
		}
		return err
	}
	for range 300 {
		if err := mcp(); err != nil {
			return err
		}
	}
	for _, callers := range []int{1, 16} {
		r, err := rates(callers, 5, time.Second, read, mcp)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "read 10 KB, %d callers\thost %.0f/s\tserver-filesystem %.0f/s\tratio %.2f\tat least 2.00\t%s\n", callers, r[0], r[1], r[0]/r[1], verdict(r[0]/r[1] >= 2))
	}
	for _, command := range []string{"edit sample.txt --old_string nothing-like-it --new_string x", "glob '*.txt'", "true"} {
		h.Run(ctx, host.Request{Command: command}, nil) // start the plugin of the command, because all four plugins must be running
	}
	running := 0
	for _, p := range h.Status().Plugins {
		if p.Running {
			running++
		}
	}
	return hostRSS(ctx, out, bin, dir, running)
}

// sampleHost returns a host with a sample workspace. The caller must call the function "done" at the end.
func sampleHost(ctx context.Context, bin string) (h *host.Host, dir string, done func(), err error) {
	if dir, err = sample(); err != nil {
		return nil, "", nil, err
	}
	h, err = host.New(ctx, host.Options{Workspace: dir, StateDir: stateOf(dir), BundledDir: filepath.Join(bin, "plugins")})
	if err != nil {
		_ = os.RemoveAll(filepath.Dir(dir))
		return nil, "", nil, err
	}
	return h, dir, func() {
		_ = h.Close() // ignore the error, because it does not affect the measurement
		_ = os.RemoveAll(filepath.Dir(dir))
	}, nil
}

// sampleFile is the name of the file in a sample workspace.
const sampleFile = "sample.txt"

// stateOf returns the state directory for a workspace that sample created. It is outside of the workspace, because
// tools can write in the workspace.
func stateOf(dir string) string { return filepath.Join(filepath.Dir(dir), "state") }

// sample creates a workspace with one text file of 10 KB.
func sample() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "toolhost-bench"); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		dir = filepath.Join(dir, "work")
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	line := []byte("The quick brown fox jumps over the lazy dog, again and again.\n")
	content := bytes.Repeat(line, fileSize/len(line)+1)[:fileSize-1]
	content = append(content, '\n')
	return dir, os.WriteFile(filepath.Join(dir, sampleFile), content, 0o600)
}
