package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	hostmcp "toolhost.dev/host/mcp"
)

// TestMCPSignsOfLife checks the progress notifications for a silent command and for a call that waits for the command.
// Both calls must succeed with a client whose timeout restarts at each notification.
func TestMCPSignsOfLife(t *testing.T) {
	t.Parallel()
	dir, config := orderDir(t)
	h, err := host.New(t.Context(), host.Options{Config: config, BundledDir: filepath.Join(bin, "plugins"), Workspace: dir, StateDir: t.TempDir(), Pulse: 20 * time.Millisecond})
	must(t, err)
	defer h.Close()
	server, err := hostmcp.New(h, hostmcp.Options{})
	must(t, err)
	defer server.Close()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), in, out) }()

	notes := make(chan *mcp.ProgressNotificationParams, 1000)
	client := connect(t, "2025-06-18", &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil, func(p *mcp.ProgressNotificationParams) { notes <- p })
	type answer struct {
		name string
		res  *mcp.CallToolResult
		err  error
	}
	answers := make(chan answer, 2)
	call := func(name string, args map[string]any) {
		p := &mcp.CallToolParams{Name: name, Arguments: args}
		p.SetProgressToken(name)
		res, err := client.CallTool(t.Context(), p)
		answers <- answer{name, res, err}
	}
	go call("bash", map[string]any{"command": "until [ -e go ]; do sleep 0.01; done"})
	heard := map[any]int{"bash": 0, "write": 0}
	last := map[any]float64{}
	for heard["bash"] < 3 || heard["write"] < 3 {
		var n *mcp.ProgressNotificationParams
		select {
		case n = <-notes:
		case <-time.After(time.Minute):
			t.Fatalf("the client hears nothing more: %v", heard)
		}
		want := "bash runs, "
		if n.ProgressToken == "write" {
			want = "waits for bash: until [ -e go ]; do sleep 0.01; done, "
		}
		if n.Progress <= last[n.ProgressToken] {
			t.Errorf("%+v after %v", n, last)
		}
		last[n.ProgressToken] = n.Progress
		if strings.Contains(n.Message, "waits for permission or for room") { // on a busy machine, the call has not started yet
			continue
		}
		if !strings.HasPrefix(n.Message, want) {
			t.Errorf("%+v", n)
		}
		if heard[n.ProgressToken]++; n.ProgressToken == "bash" && heard["bash"] == 1 {
			go call("write", map[string]any{"file_path": "x.txt", "content": "x"})
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for range 2 {
		if a := <-answers; a.err != nil || a.res.IsError {
			t.Errorf("%s: %v %+v", a.name, a.err, a.res)
		}
	}
	must(t, client.Close())
	must(t, <-served)
}
