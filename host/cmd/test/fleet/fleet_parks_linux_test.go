package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetParkedAsk leaves the question about a forwarded call open, while other calls of its session run. A client
// without a session gets the question as the answer to its request, so it may never come back. The other calls must not
// wait for it, and its answer still counts.
func TestFleetParkedAsk(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	f, _ := newFleetWithLocal(t, "permissions { policy = \"careful\" }\n")
	one, _ := f.start("one"), f.start("two")
	hosttest.Must(t, os.WriteFile(filepath.Join(f.workspace, "old"), nil, 0o600))
	c := one.command("mcp", "--on", "two")
	in, out := hosttest.Piped(t, c)
	type answer struct {
		Result struct {
			RequestState string
			Content      []struct{ Text string }
			IsError      bool
		}
	}
	id := 0
	call := func(command, state string) (got answer, line string) {
		t.Helper()
		id++
		params := map[string]any{"name": "bash", "arguments": map[string]any{"command": command}, "_meta": map[string]any{
			"toolhost.dev/session": "parks", mcp.MetaKeyProtocolVersion: hosttest.Eras[2], mcp.MetaKeyClientInfo: map[string]any{"name": "raw", "version": "1"},
			mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
		}}
		if state != "" {
			params["requestState"] = state
			params["inputResponses"] = map[string]any{"answer": map[string]any{"action": "accept", "content": map[string]any{"allow": true}}}
		}
		b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
		hosttest.Must(t, err)
		_, err = io.WriteString(in, string(b)+"\n")
		hosttest.Must(t, err)
		answered := make(chan string, 1)
		go func() {
			for {
				line, err := out.ReadString('\n')
				if err != nil || strings.Contains(line, fmt.Sprintf(`"id":%d,`, id)) {
					answered <- line
					return
				}
			}
		}()
		select {
		case line = <-answered:
		case <-hosttest.Late(t):
			t.Fatalf("waited in vain: an answer to %q", command)
		}
		hosttest.Must(t, json.Unmarshal([]byte(line), &got))
		return got, line
	}
	call("x=1", "") // the shell has a state
	first, line := call("rm old", "")
	if first.Result.RequestState == "" {
		t.Fatalf("the call does not ask: %s", line)
	}
	if got, line := call("echo meanwhile", ""); len(got.Result.Content) == 0 || got.Result.IsError || !strings.Contains(line, "meanwhile") {
		t.Errorf("another call: %s", line)
	}
	if got, line := call("rm old", first.Result.RequestState); got.Result.IsError || got.Result.RequestState != "" || exists(filepath.Join(f.workspace, "old"))() || !strings.Contains(line, `"node":"two"`) {
		t.Errorf("after the answer: %s", line)
	}
	hosttest.Must(t, in.Close())
	hosttest.Must(t, c.Wait())
}
