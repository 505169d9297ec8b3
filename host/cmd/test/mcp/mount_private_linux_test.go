package mcp

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// maxPrivate is the maximum number of private connections of a mount.
const maxPrivate = 8

// privateClients starts a host with a mounted server that has a separate connection for each session. It returns a
// function that connects a client.
func privateClients(t *testing.T) (dir string, connect func(sample func(string) string) *mcp.ClientSession) {
	t.Helper()
	dir = hosttest.MCPDir(t)
	config := fmt.Sprintf("field \"p\" {\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q, \"private\"]\n    allow = [\"sampling\"]\n  }\n}\npermissions {\n  allow \"models\" { kind = [\"sampling\"] }\n}\n", hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	base, token := hosttest.Serve(t, dir)
	return dir, func(sample func(string) string) *mcp.ClientSession {
		t.Helper()
		opts := new(mcp.ClientOptions)
		if sample != nil {
			//nolint:staticcheck // revisions before 2026-07-28 have sampling
			opts.CreateMessageHandler = func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				prompt, _ := r.Params.Messages[0].Content.(*mcp.TextContent)
				return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: sample(prompt.Text)}, Model: "m", Role: "assistant"}, nil
			}
		}
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}}, &mcp.ClientSessionOptions{ProtocolVersion: hosttest.Eras[1]})
		hosttest.Must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// servers returns the number of running servers that work in a directory.
func servers(dir string) (n int) {
	for _, p := range hosttest.Descendants() {
		if p.Name() == "testserver" && p.Dir() == dir {
			n++
		}
	}
	return n
}

// keep makes the server of a session store a text. It returns the id of the server's process and the text that was
// stored before.
func keep(t *testing.T, s *mcp.ClientSession, say string) (pid int, had string) {
	t.Helper()
	got := hosttest.Text(t, hosttest.CallTool(t, s, "p_keep", map[string]any{"text": say}))
	if _, err := fmt.Sscanf(got, "%d had %q", &pid, &had); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	return pid, had
}

// TestPrivateConnections checks that each session has its own server process, and that no data of one session reaches
// another one. If the maximum number of connections is open, the next session replaces the connection that was unused
// for the longest time, with a new process. If all connections are in use, the session gets an error that names the
// setting.
func TestPrivateConnections(t *testing.T) {
	t.Parallel()
	dir, connect := privateClients(t)
	sessions := make([]*mcp.ClientSession, maxPrivate+1)
	processes := make(map[int]int)
	for i := range sessions {
		sessions[i] = connect(nil)
	}
	for i, s := range sessions[:maxPrivate] {
		pid, had := keep(t, s, fmt.Sprint("secret of ", i))
		if other, taken := processes[pid]; had != "" || taken {
			t.Errorf("session %d has the process %d of session %d, which remembers %q", i, pid, other, had)
		}
		processes[pid] = i
	}
	var first int
	for i, s := range sessions[:maxPrivate] {
		pid, had := keep(t, s, fmt.Sprint("secret of ", i))
		if processes[pid] != i || had != fmt.Sprint("secret of ", i) {
			t.Errorf("session %d has another process than before, which remembers %q", i, had)
		}
		if i == 0 {
			first = pid
		}
	}

	// If one more session uses the mount, the server of the session that was idle for the longest time ends.
	pid, had := keep(t, sessions[maxPrivate], "secret of the last")
	if _, taken := processes[pid]; taken || had != "" {
		t.Errorf("the last session has a process of another one, which remembers %q", had)
	}
	// The number includes the server that all sessions share.
	hosttest.Wait(t, "the evicted process ended", func() bool { return servers(dir) == maxPrivate+1 })
	if pid, had := keep(t, sessions[0], "secret of 0"); pid == first || had != "" {
		t.Errorf("the evicted session: process %d (before %d) remembers %q", pid, first, had)
	}

	// All connections are in use. Session 1 was evicted by session 0.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxPrivate)
	for i, s := range sessions {
		if i != 1 {
			go func() {
				_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "p_block"})
				ended <- err
			}()
		}
	}
	hosttest.Wait(t, "all calls run", func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "blocked-*"))
		hosttest.Must(t, err)
		return len(files) == maxPrivate
	})
	want := fmt.Sprintf("%d sessions have a connection of their own to the MCP server, which is the maximum", maxPrivate)
	if res := hosttest.CallTool(t, sessions[1], "p_keep", nil); !res.IsError || !strings.Contains(hosttest.Text(t, res), want) || !strings.Contains(hosttest.Text(t, res), `sessions = "shared"`) {
		t.Errorf("one session too many: %s", hosttest.Text(t, res))
	}
	cancel()
	for range maxPrivate {
		<-ended
	}
	hosttest.Wait(t, "the session is served", func() bool { return !hosttest.CallTool(t, sessions[1], "p_keep", nil).IsError })
}

// TestKilledWhileSampling kills a server while it waits for the client's model. The call must fail with the reason, the
// model must not be asked again, and the session must get a new server. The other sessions must keep their servers.
func TestKilledWhileSampling(t *testing.T) {
	t.Parallel()
	dir, connect := privateClients(t)
	var asked atomic.Int64
	other := connect(nil)
	pid, _ := keep(t, other, "mine")
	answer := make(chan string)
	s := connect(func(string) string {
		asked.Add(1)
		if err := os.WriteFile(filepath.Join(dir, "kill"), nil, 0o600); err != nil {
			t.Error(err)
		}
		return <-answer // the model answers only after the host has noticed the end of the server
	})
	ended := make(chan string, 1)
	go func() {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "p_sample"})
		if err != nil || !res.IsError {
			ended <- fmt.Sprintf("the call did not fail: %+v, %v", res, err)
			return
		}
		ended <- hosttest.Text(t, res)
	}()
	select {
	case got := <-ended:
		if !strings.Contains(got, "connection to the MCP server ended during the call") {
			t.Error(got)
		}
	case <-hosttest.Late(t):
		t.Error("the call did not end with its server")
	}
	close(answer)
	if _, had := keep(t, s, "after"); had != "" {
		t.Errorf("the new server remembers %q", had)
	}
	if got, had := keep(t, other, "mine"); got != pid || had != "mine" {
		t.Errorf("the other session: process %d (before %d) remembers %q", got, pid, had)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
