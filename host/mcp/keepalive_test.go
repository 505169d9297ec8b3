package mcp

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestComments checks that the response to a call without output contains comments before the result. If a comment has
// already begun the response, a result that needs another HTTP status must be sent as an event.
func TestComments(t *testing.T) {
	s := &Server{mcp: mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil), opts: Options{Log: slog.New(slog.DiscardHandler)}, comments: time.Millisecond}
	heard := make(chan struct{})
	s.mcp.AddTool(&mcp.Tool{Name: "wait", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, done := s.posts.follow(ctx, req.Extra.Header.Get(postHeader), true)
		<-heard
		done()
		if string(req.Params.Arguments) != "{}" {
			return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "no"}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	for arguments, want := range map[string]string{"{}": `"text":"done"`, `{"a":1}`: `"code":-32021`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":` + arguments + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait"} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req) // returns when the first comment arrives
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		for range 3 {
			line, err := in.ReadString('\n')
			if err != nil || strings.TrimSpace(line) != "" && line != ": alive\n" {
				t.Errorf("%q %v", line, err)
			}
		}
		heard <- struct{}{}
		rest, err := io.ReadAll(in)
		if err != nil || res.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(string(rest), "event: message\ndata: {") || !strings.Contains(string(rest), want) || !strings.HasSuffix(string(rest), "}\n\n") {
			t.Errorf("%q %v", rest, err)
		}
		_ = res.Body.Close()
	}
}
