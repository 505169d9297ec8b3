package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/test/hosttest"
)

// TestStructuredDataPassesThrough checks that a client gets the structured data of a mounted server, although the definition of
// the tool has no schema for it.
func TestStructuredDataPassesThrough(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	b, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, append(b, fmt.Sprintf("field \"plain\" {\n  mcp {\n    command = [%q, \"plain\"]\n  }\n}\n", filepath.Join(hosttest.Bin, "testserver"))...), 0o600))
	for _, era := range hosttest.Eras {
		s := hosttest.Connect(t, era, &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, nil, nil)
		res := hosttest.CallTool(t, s, "plain_structured", map[string]any{})
		if got, err := json.Marshal(res.StructuredContent); err != nil || string(got) != `{"degrees":21}` {
			t.Errorf("revision %s: %s, %v", era, got, err)
		}
	}
}
