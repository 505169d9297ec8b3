package calls

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	hostmcp "toolhost.dev/host/mcp"
)

// TestMCPSignsOfLife checks the progress notifications for a silent command and for a call that waits for the command.
// Both calls must succeed with a client whose timeout restarts at each notification.
func TestMCPSignsOfLife(t *testing.T) {
	t.Parallel()
	dir, _ := orderDir(t)
	config := filepath.Join(t.TempDir(), "toolhost.hcl") // outside of the workspace, so the file needs no trust
	hosttest.Must(t, os.WriteFile(config, []byte(orderConfig+"\nendpoint \"silent\" {\n  keep_alive = false\n}\n"), 0o600))
	h, err := host.New(t.Context(), host.Options{Config: config, BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: dir, StateDir: hosttest.KeptState(t, filepath.Join(t.TempDir(), "state")), Pulse: 20 * time.Millisecond})
	hosttest.Must(t, err)
	defer h.Close()
	notes, silent := make(chan *mcp.ProgressNotificationParams, 1000), make(chan *mcp.ProgressNotificationParams, 1000)
	client, end := serveInMemory(t, h, hostmcp.Options{}, notes)
	defer end()
	other, endOther := serveInMemory(t, h, hostmcp.Options{Endpoint: "silent"}, silent)
	defer endOther()
	type answer struct {
		name string
		res  *mcp.CallToolResult
		err  error
	}
	answers := make(chan answer, 3)
	call := func(client *mcp.ClientSession, name string, args map[string]any) {
		p := &mcp.CallToolParams{Name: name, Arguments: args}
		p.SetProgressToken(name)
		res, err := client.CallTool(t.Context(), p)
		answers <- answer{name, res, err}
	}
	go call(other, "bash", map[string]any{"command": "touch other; until [ -e go ]; do sleep 0.01; done"})
	hosttest.Wait(t, "the call at the silent endpoint runs", func() bool {
		if len(answers) > 0 {
			a := <-answers
			t.Fatal(a.err, a.res)
		}
		_, err := os.Stat(filepath.Join(dir, "other"))
		return err == nil
	})
	go call(client, "bash", map[string]any{"command": "until [ -e go ]; do sleep 0.01; done"})
	heard := map[any]int{"bash": 0, "write": 0}
	last := map[any]float64{}
	for heard["bash"] < 3 || heard["write"] < 3 {
		var n *mcp.ProgressNotificationParams
		select {
		case n = <-notes:
		case <-hosttest.Late(t):
			t.Fatalf("no further progress notification within a minute: %v", heard)
		}
		want := "bash runs, "
		if n.ProgressToken == "write" {
			want = "waits for bash: until [ -e go ]; do sleep 0.01; done, "
		}
		if n.Progress <= last[n.ProgressToken] {
			t.Errorf("%+v after %v", n, last)
		}
		last[n.ProgressToken] = n.Progress
		if strings.Contains(n.Message, "waits for permission, or until") { // on a busy machine, the call has not started yet
			continue
		}
		if !strings.HasPrefix(n.Message, want) {
			t.Errorf("%+v", n)
		}
		if heard[n.ProgressToken]++; n.ProgressToken == "bash" && heard["bash"] == 1 {
			go call(client, "write", map[string]any{"file_path": "x.txt", "content": "x"})
		}
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for range 3 {
		if a := <-answers; a.err != nil || a.res.IsError {
			t.Errorf("%s: %v %+v", a.name, a.err, a.res)
		}
	}
	if len(silent) > 0 {
		t.Errorf("a client of the silent endpoint got %+v", <-silent)
	}
}

// serveInMemory serves a client in this process. It returns the client and a function that ends both.
func serveInMemory(t *testing.T, h *host.Host, opts hostmcp.Options, notes chan *mcp.ProgressNotificationParams) (client *mcp.ClientSession, end func()) {
	t.Helper()
	server, err := hostmcp.New(h, opts)
	hosttest.Must(t, err)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), in, out) }()
	client = hosttest.Connect(t, "2025-06-18", &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil, func(p *mcp.ProgressNotificationParams) { notes <- p })
	return client, func() {
		hosttest.Must(t, client.Close())
		hosttest.Must(t, <-served)
		server.Close()
	}
}
