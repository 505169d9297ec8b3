package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveNewest runs an MCP server over HTTP that has no sessions and speaks only one revision. It refuses the handshake
// of older revisions. At /future, it speaks only a revision that no client knows. It also writes a configuration that
// mounts both addresses.
func serveNewest(config string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s.AddPrompt(&mcp.Prompt{Name: "hello"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{
			Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say hello."}}},
		}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "model", Description: "Ask the model."},
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			//nolint:staticcheck // servers still ask for models
			if answer, ok := req.Params.InputResponses["ask"].(*mcp.CreateMessageWithToolsResult); ok {
				said, _ := answer.Content[0].(*mcp.TextContent)
				return &mcp.CallToolResult{
						Content: []mcp.Content{&mcp.TextContent{Text: "the model said " + said.Text}},
					},
					nil, nil
			}
			return &mcp.CallToolResult{
				//nolint:staticcheck // servers still ask for models
				InputRequests: mcp.InputRequestMap{
					"ask": &mcp.CreateMessageParams{MaxTokens: 9,
						Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hi"}}}},
				},
				RequestState: "state",
			}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{
		Stateless: true,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	writeFields(config, l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("/future", func(w http.ResponseWriter, _ *http.Request) { refuseRevision(w, "2027-03-01") })
	mux.HandleFunc("/newest", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"method":"initialize"`)) ||
			r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" {
			refuseRevision(w, "2026-07-28")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	})
	panic(http.Serve(l, mux)) //nolint:gosec // for tests
}

// writeFields writes a configuration that mounts both addresses.
func writeFields(config string, at net.Addr) {
	var text string
	for _, name := range []string{"newest", "future"} {
		text += fmt.Sprintf("field %q {\n  mcp {\n    url   = \"http://%s/%s\"\n    offer = [\"tools\", \"prompts\"]\n    allow = [\"sampling\"]\n  }\n}\n", name, at, name)
	}
	text += "permissions {\n  allow \"models\" { kind = [\"sampling\"] }\n}\n"
	if err := os.WriteFile(config+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(config+".new", config); err != nil {
		panic(err)
	}
}

// refuseRevision answers a request in an unsupported revision of the protocol.
func refuseRevision(w http.ResponseWriter, supported string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"Unsupported protocol version","data":{"supported":[%q]}}}`, mcp.CodeUnsupportedProtocolVersion, supported)
}
