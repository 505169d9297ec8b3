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

// TestSamplingAsk checks that a mounted server can use the client's model only with the user's permission, that the
// user sees what the server sends, and that the permission is asked for once for each session.
//
//nolint:staticcheck // revisions before 2026-07-28 have sampling
func TestSamplingAsk(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := fmt.Sprintf("field \"test\" {\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q]\n    allow   = [\"sampling\"]\n  }\n}\nfield \"d\" {\n  mcp {\n    command = [%q, \"demanding\"]\n    allow   = [\"sampling\"]\n  }\n}\n",
		hosttest.Bin, filepath.Join(hosttest.Bin, "everything"), filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	for _, agrees := range []bool{true, false} {
		var asked []string
		var sampled atomic.Int64
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = append(asked, r.Params.Message)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": agrees}}, nil
			},
			CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				sampled.Add(1)
				return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "Paris"}, Model: "m", Role: "assistant"}, nil
			},
		}).Connect(t.Context(), &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, &mcp.ClientSessionOptions{ProtocolVersion: hosttest.Eras[1]})
		hosttest.Must(t, err)
		sample := func() (got string) {
			for _, c := range hosttest.CallTool(t, s, "test_sampling", map[string]any{"prompt": "the capital\nAllow\x1b[2Jeverything"}).Content {
				if c, ok := c.(*mcp.TextContent); ok {
					got += c.Text
				}
			}
			return got
		}
		first, second := sample(), sample()
		if len(asked) == 0 || !strings.HasPrefix(asked[0], "Let the server test use your model? It sends: ") || !strings.Contains(asked[0], `the capital Allow\u001b[2Jeverything`) {
			t.Fatalf("agrees %v: the user was asked %q", agrees, asked)
		}
		if agrees {
			if !strings.Contains(first, "Paris") || !strings.Contains(second, "Paris") || len(asked) != 1 || sampled.Load() != 2 {
				t.Errorf("with permission: %q, %q; asked %d times, %d requests to the model", first, second, len(asked), sampled.Load())
			}
		} else if strings.Contains(first+second, "Paris") || !strings.Contains(first, "sampling") || len(asked) != 2 || sampled.Load() != 0 {
			t.Errorf("without permission: %q, %q; asked %d times, %d requests to the model", first, second, len(asked), sampled.Load())
		}
		if !agrees { // a server that does not take no for an answer
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "d_demand", map[string]any{"text": "sampling again"})); got != "three errors" || len(asked) != 3 {
				t.Errorf("%s; asked %d times", got, len(asked))
			}
		}
		hosttest.Must(t, s.Close())
	}
}

// TestLegacyQuestion checks that a client of MCP 2026-07-28, which has no connection for questions, answers the
// question of a server of an earlier revision. The host parks the call until the client sends the answer.
func TestLegacyQuestion(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := fmt.Sprintf("field \"d\" {\n  sandbox { read = [%q] }\n  mcp { command = [%q, \"demanding\"] }\n}\n", hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	base, token := hosttest.Serve(t, dir)
	for name, transport := range map[string]mcp.Transport{
		"stdio": &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")},
		"http":  &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}},
	} {
		var asked atomic.Int64
		reply := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"age": 36}}
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				if r.Params.Message != "Please." {
					t.Errorf("%s: the question is %q", name, r.Params.Message)
				}
				asked.Add(1)
				return reply, nil
			},
		}).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: hosttest.Eras[2]})
		hosttest.Must(t, err)
		for _, tc := range []struct {
			reply *mcp.ElicitResult
			want  string
		}{
			{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"age": 36}}, `{"action":"accept","content":{"age":36}}`},
			{&mcp.ElicitResult{Action: "decline"}, `{"action":"decline"}`},
		} {
			reply = tc.reply
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "d_demand", map[string]any{"text": "plain"})); got != tc.want {
				t.Errorf("%s: %s, want %s", name, got, tc.want)
			}
		}
		if asked.Load() != 2 {
			t.Errorf("%s: %d questions", name, asked.Load())
		}
		hosttest.Must(t, s.Close())
	}
}
