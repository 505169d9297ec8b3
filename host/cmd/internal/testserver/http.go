package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveHTTP runs an MCP server over streamable HTTP. Clients need a token. It also writes a configuration that mounts
// the server twice, with and without the token.
func serveHTTP(config string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greet somebody."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Who string `json:"who"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Who}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	block := "field %q {\n  mcp {\n    url = \"http://%s/%s\"\n    %s\n  }\n}\n"
	text := fmt.Sprintf(block, "web", l.Addr(), "mcp", `headers = { Authorization = "Bearer ${env("TOKEN")}" }`) +
		fmt.Sprintf(block, "stranger", l.Addr(), "mcp", "") + fmt.Sprintf(block, "moved", l.Addr(), "moved", "")
	if err := os.WriteFile(config+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(config+".new", config); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/moved", http.RedirectHandler("/mcp", http.StatusTemporaryRedirect))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(withTasks{w}, r)
	})
	panic(http.Serve(l, mux)) //nolint:gosec // for tests
}

// withTasks adds the capability tasks, which the SDK does not know, to the answer to initialize.
type withTasks struct{ http.ResponseWriter }

func (w withTasks) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.Replace(p, []byte(`"capabilities":{`),
		[]byte(`"capabilities":{"tasks":{"list":{}},`), 1))
	return len(p), err
}

// Unwrap returns the writer that can flush.
func (w withTasks) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written.
func (w withTasks) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
