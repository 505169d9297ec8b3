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

// TestMountedToolsChange checks that a client is notified at once if a mounted server adds tools while no call runs.
func TestMountedToolsChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		era      string
		endpoint bool
	}{{"2025-11-25", false}, {"2025-11-25", true}, {"2026-07-28", false}, {"2026-07-28", true}} {
		t.Run(fmt.Sprintf("%s endpoint %v", tc.era, tc.endpoint), func(t *testing.T) {
			t.Parallel()
			args := []string{"mcp"}
			if tc.endpoint {
				args = append(args, "--endpoint", "every")
			}
			toolsChange(t, tc.era, args)
		})
	}
}

func toolsChange(t *testing.T, era string, args []string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "later"), nil, 0o600))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, "field \"t\" {\n  mcp { command = [%q, \"serve\"] }\n}\nendpoint \"every\" {\n  tools = [\"t:*\"]\n  mode = \"all\"\n}\n", filepath.Join(hosttest.Bin, "testserver")), 0o600))
	changed := make(chan struct{}, 10)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	}).Connect(t.Context(), &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, args...)}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	hosttest.Must(t, err)
	defer s.Close()
	has := func() bool {
		t.Helper()
		list, err := s.ListTools(t.Context(), nil)
		hosttest.Must(t, err)
		return slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "t_added" })
	}
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "t_grow", nil)); got != "grows later" || has() {
		t.Fatalf("%q, or the tool is there already", got)
	}
	select {
	case <-changed:
	case <-hosttest.Late(t):
		t.Fatal("the client was not notified")
	}
	if !has() {
		t.Error("the tool is not listed")
	}
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "t_added", nil)); got != "called added" {
		t.Error(got)
	}
}
