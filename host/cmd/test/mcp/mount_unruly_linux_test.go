package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// unrulyHost starts a host that mounts the server "unruly" twice, once with a short limit for its tool "misbehave". It
// returns the process of the host and a client.
func unrulyHost(t *testing.T, progress func(*mcp.ProgressNotificationParams)) (pid int, s *mcp.ClientSession) {
	t.Helper()
	dir := hosttest.MCPDir(t)
	config := ""
	for name, limit := range map[string]string{"u": "5m", "short": "2s"} { // a flood takes long on a busy machine
		config += fmt.Sprintf("field %q {\n  timeout = \"5m\"\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q, \"unruly\"]\n  }\n}\ntool %q {\n  timeout = %q\n}\n",
			name, hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"), name+":misbehave", limit)
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	program := hosttest.Toolhost(t, dir, "mcp")
	s = hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: program}, nil, progress)
	return program.Process.Pid, s
}

// TestInterleavedCalls makes 1000 calls over one connection to a server that answers them in a different order. Each
// call must get its own answer and its own notifications.
func TestInterleavedCalls(t *testing.T) {
	t.Parallel()
	var noted sync.Map // texts of notifications by progress token
	_, s := unrulyHost(t, func(p *mcp.ProgressNotificationParams) { noted.Store(p.ProgressToken, p.Message) })
	const callers, each = 10, 100
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				want := fmt.Sprintf("call %d of caller %d", i, caller)
				params := &mcp.CallToolParams{Name: "u_shuffle", Arguments: map[string]any{"text": want}}
				params.SetProgressToken(want)
				res, err := s.CallTool(t.Context(), params)
				if err != nil {
					t.Error(err)
					return
				}
				if got := hosttest.Text(t, res); got != want {
					t.Errorf("%s got the answer %q", want, got)
				}
			}
		})
	}
	all.Wait()
	// The client handles notifications beside results, so the last ones can come later.
	hosttest.Wait(t, "the notification of each call", func() bool {
		n := 0
		noted.Range(func(token, message any) bool {
			if token != message {
				t.Errorf("%v got the notification %q", token, message)
			}
			n++
			return true
		})
		return n == callers*each
	})
}

// TestUnrulyServer mounts a server that breaks the rules of the protocol. The server must neither stop the host nor
// make its memory grow, and each call must end.
func TestUnrulyServer(t *testing.T) {
	t.Parallel()
	host, s := unrulyHost(t, nil)
	hosttest.CallTool(t, s, "u_echo", map[string]any{"text": "hi"})
	server := hosttest.Text(t, hosttest.CallTool(t, s, "u_pid", nil))
	before := peakMemory(t, host)
	for _, rule := range []string{"flood", "endless", "stderr", "garbage", "ids", "twice", "requests"} {
		want := "done: " + rule
		if rule == "endless" { // the host does not read this line, so it cannot know to which call the line belongs
			want = "the limit is 16 MiB"
		}
		if got := hosttest.Text(t, hosttest.CallTool(t, s, "u_misbehave", map[string]any{"text": rule})); !strings.Contains(got, want) {
			t.Errorf("%s: %s", rule, got)
		}
		if got := hosttest.Text(t, hosttest.CallTool(t, s, "u_echo", map[string]any{"text": rule})); got != rule {
			t.Errorf("after %s: %s", rule, got)
		}
		// An idle host has about 50 MB. For each rule, the server sends so much data that a host that stored it would
		// exceed the limit.
		if grown := peakMemory(t, host) - before; grown > 40<<10 {
			t.Errorf("%s: the host grew by %d KiB", rule, grown)
		}
	}
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "u_pid", nil)); got != server {
		t.Errorf("the server's process is %s, and was %s", got, server)
	}
	res := hosttest.CallTool(t, s, "short_misbehave", map[string]any{"text": "never"})
	if got := hosttest.Text(t, res); !res.IsError || !strings.Contains(got, "took longer than 2s") {
		t.Errorf("never: %s", got)
	}
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "short_echo", map[string]any{"text": "at last"})); got != "at last" {
		t.Errorf("after never: %s", got)
	}
}

// peakMemory returns the peak memory of a process, in KiB.
func peakMemory(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	hosttest.Must(t, err)
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return kib
}
