package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPClientsFollowTheTools replaces a plugin by a version with different tools. The server must notify the client,
// and the client must be able to call the new tools.
func TestMCPClientsFollowTheTools(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	plugin := filepath.Join(dir, "p")
	put := func(variant string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(bin, "testplugin"))
		must(t, err)
		must(t, os.WriteFile(plugin+".new", fmt.Appendf(b, "\n!variant %s\n", variant), 0o755))
		must(t, os.Rename(plugin+".new", plugin))
		must(t, toolhost(t, dir, "version").Run()) // any command makes the wrapper trust the binary
	}
	put("version=1.0.0")
	must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte("plugin \"p\" {\n  path = \"p\"\n}\n"), 0o600))
	changed := make(chan struct{}, 10)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	}).Connect(t.Context(), &mcp.CommandTransport{Command: toolhost(t, dir, "mcp")}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	must(t, err)
	defer s.Close()
	names := func() (out []string) {
		t.Helper()
		list, err := s.ListTools(t.Context(), nil)
		must(t, err)
		for _, tool := range list.Tools {
			out = append(out, tool.Name)
		}
		return out
	}
	if slices.Contains(names(), "extra") {
		t.Fatal("the tool is there already")
	}
	put("version=2.0.0 add=extra")
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("the client was not notified")
	}
	if !slices.Contains(names(), "extra") {
		t.Errorf("%v", names())
	}
	if res := callTool(t, s, "extra", nil); res.IsError {
		t.Errorf("%+v", res)
	}
}
