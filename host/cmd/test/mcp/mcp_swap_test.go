package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestMCPClientsFollowTheTools replaces a plugin by a version with different tools. The server must notify the client,
// and the client must be able to call the new tools.
func TestMCPClientsFollowTheTools(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	plugin := filepath.Join(dir, "p")
	put := func(variant string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
		hosttest.Must(t, err)
		hosttest.Must(t, os.WriteFile(plugin+".new", fmt.Appendf(b, "\n!variant %s\n", variant), 0o755))
		hosttest.Must(t, os.Rename(plugin+".new", plugin))
		hosttest.Must(t, hosttest.Toolhost(t, dir, "version").Run()) // any command makes the wrapper trust the binary
	}
	put("version=1.0.0")
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte("plugin \"p\" {\n  path = \"p\"\n}\n"), 0o600))
	changed := make(chan struct{}, 10)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	}).Connect(t.Context(), &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	hosttest.Must(t, err)
	defer s.Close()
	names := func() (out []string) {
		t.Helper()
		list, err := s.ListTools(t.Context(), nil)
		hosttest.Must(t, err)
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
	case <-hosttest.Late(t):
		t.Fatal("the client was not notified")
	}
	if !slices.Contains(names(), "extra") {
		t.Errorf("%v", names())
	}
	if res := hosttest.CallTool(t, s, "extra", nil); res.IsError {
		t.Errorf("%+v", res)
	}
}
