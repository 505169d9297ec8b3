package mcp

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestInstructionsNameLimits checks that the instructions for an agent describe the restrictions that apply to its
// commands (requirements U5, G2).
func TestInstructionsNameLimits(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]bool{
		"plugin \"bash\" {}\n": true,
		"plugin \"bash\" {}\nsandbox {\n  enforce = \"off\"\n}\n": false,
	} {
		dir := hosttest.MCPDir(t)
		hosttest.Must(t, os.WriteFile(dir+"/toolhost.hcl", []byte(config), 0o600))
		c := hosttest.Toolhost(t, dir, "mcp")
		in, out := hosttest.Piped(t, c)
		_, err := fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		hosttest.Must(t, err)
		line, err := out.ReadString('\n')
		hosttest.Must(t, err)
		if !strings.Contains(line, `"instructions":"toolhost runs`) || strings.Contains(line, "Sandbox: no network; ") != want {
			t.Errorf("%q: %s", config, line)
		}
		hosttest.Must(t, in.Close())
		hosttest.Must(t, c.Wait())
	}
}
