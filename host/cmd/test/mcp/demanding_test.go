package mcp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestDemandingServer checks that a mounted server cannot exceed its limits for questions, log messages, lists and
// resources. Nothing beyond the limits may reach the client.
//
//nolint:staticcheck // revisions before 2026-07-28 have logging and sampling
func TestDemandingServer(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := fmt.Sprintf("field \"d\" {\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q, \"demanding\"]\n    offer = [\"tools\", \"resources\", \"logging\"]\n  }\n}\n", hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config+"permissions {\n  allow \"models\" { kind = [\"sampling\"] }\n}\n"), 0o600))
	var said bytes.Buffer
	program := hosttest.Toolhost(t, dir, "mcp")
	program.Stderr = &said
	var asked, sampled atomic.Int64
	logs := make(chan string, 1000)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { logs <- fmt.Sprint(r.Params.Data) },
		ElicitationHandler:    func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil }, // see the middleware
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			sampled.Add(1)
			return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "secret"}, Model: "m", Role: "assistant"}, nil
		},
	})
	reply := &mcp.ElicitResult{Action: "accept"}
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "elicitation/create" { // the SDK's own handler would refuse an answer that does not fit the form
				asked.Add(1)
				return reply, nil
			}
			return next(ctx, method, req)
		}
	})
	s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: program}, &mcp.ClientSessionOptions{ProtocolVersion: hosttest.Eras[1]})
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	demand := func(what string) string {
		t.Helper()
		return hosttest.Text(t, hosttest.CallTool(t, s, "d_demand", map[string]any{"text": what}))
	}

	// Forms that a client cannot show are declined. Answers that do not fit the form are withheld.
	reply.Content = map[string]any{"age": 36.0, "more": "x"}
	if got := demand("plain"); got != `{"action":"accept","content":{"age":36}}` || asked.Load() != 1 {
		t.Errorf("a good answer: %s", got)
	}
	for _, content := range []map[string]any{{"age": 0.0}, {"age": "secret"}, {}} {
		reply.Content = content
		if got := demand("plain"); got != `{"action":"cancel"}` {
			t.Errorf("the answer %v: %s", content, got)
		}
	}
	asked.Store(0)
	for _, form := range []string{"nested", "remote", "many", "large"} {
		if got := demand(form); got != `{"action":"decline"}` || asked.Load() != 0 {
			t.Errorf("%s: %s, %d questions", form, got, asked.Load())
		}
	}

	// Requests that are not allowed do not reach the client.
	for range 3 {
		if got := demand("sampling"); got != "an error" || sampled.Load() != 0 {
			t.Errorf("sampling: %s, %d requests", got, sampled.Load())
		}
	}

	// A flood of log messages is cut, and the dropped messages are counted.
	hosttest.Must(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
	hosttest.CallTool(t, s, "d_flood", nil)
	lines, dropped := 0, 0
	for lines+dropped < 200 { // the last message contains the number of dropped messages
		var line string
		select {
		case line = <-logs:
		case <-hosttest.Late(t):
			t.Fatalf("%d messages, %d dropped, and no more", lines, dropped)
		}
		if strings.HasPrefix(line, "line ") {
			lines++
			continue
		}
		var n int
		if _, err := fmt.Sscanf(line, "%d log messages of the server were dropped", &n); err != nil {
			t.Fatal(line)
		}
		dropped += n
	}
	if lines > 100 || lines < 50 { // the limit applies per second, and the flood can take longer than one second
		t.Errorf("%d messages, %d dropped", lines, dropped)
	}

	// The messages also arrive if a command calls the tool.
	hosttest.CallTool(t, s, "bash", map[string]any{"command": "true; field:d flood"})
	select {
	case <-logs:
	case <-hosttest.Late(t):
		t.Error("the log messages of a tool that a command called are missing")
	}

	// The length of lists and the size of a resource are limited.
	resources, err := s.ListResources(t.Context(), nil)
	hosttest.Must(t, err)
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	hosttest.Must(t, err)
	if len(resources.Resources) != 200 || len(templates.ResourceTemplates) != 500 {
		t.Errorf("%d resources, %d templates", len(resources.Resources), len(templates.ResourceTemplates))
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://0"}); err == nil || !strings.Contains(err.Error(), "has 178258") || !strings.Contains(err.Error(), "the limit is 16 MiB") {
		t.Errorf("a large resource: %v", err)
	}
	hosttest.Must(t, s.Close())
	for want, n := range map[string]int{
		"its field \\\"x\\\" is neither": 1, "refers to other schemas": 1, "33 fields": 1, "the limit is 65536": 1, `add \"sampling\" to allow`: 1,
		"list of resources has more than 20 pages": 1, "more than 500 resource templates": 1,
	} {
		if got := strings.Count(said.String(), want); got != n {
			t.Errorf("%d lines with %s:\n%s", got, want, said.String())
		}
	}
}
