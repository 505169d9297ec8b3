//go:build oracle

package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTypeScriptClients tests both generations of the official TypeScript SDK, also with questions of mounted servers
// of both generations of the protocol.
func TestTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"1", "2"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			script, err := filepath.Abs("testdata/client.cjs")
			if err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(filepath.Join(dir, "toolhost.hcl"))
			hosttest.Must(t, err)
			config = fmt.Appendf(config, "field \"older\" {\n  mcp { command = [%q, \"demanding\"] }\n}\nfield \"newer\" {\n  mcp { command = [%q] }\n}\n", filepath.Join(hosttest.Bin, "testserver"), filepath.Join(hosttest.Bin, "everything"))
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), config, 0o600))
			server := hosttest.Toolhost(t, dir, "mcp")
			c := hosttest.Node(t, append([]string{script, hosttest.Peer(t, ""), generation}, server.Args...)...)
			c.Dir = dir
			b, err := c.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			type result struct {
				IsError bool
				Content []struct{ Text string }
			}
			var seen struct {
				Instructions                         string
				Tools, Asked                         []string
				Canceled                             string
				Read, Failed, Printed, Asking, After result
				Older, Newer                         result
				Progress                             []struct{ Message string }
			}
			if err := json.Unmarshal(b, &seen); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(seen.Tools, "read") || !slices.Contains(seen.Tools, "test_echo") || !strings.Contains(seen.Instructions, "three layers") {
				t.Errorf("%v %q", seen.Tools, seen.Instructions)
			}
			for what, r := range map[string]struct {
				result
				text  string
				fails bool
			}{
				"read": {seen.Read, "one\ntwo\n", false}, "failed": {seen.Failed, "File does not exist", true},
				"printed": {seen.Printed, "first\nsecond\n", false}, "asking": {seen.Asking, "thank you", false}, "after": {seen.After, "on\n", false},
				"older": {seen.Older, `{"action":"accept","content":{"age":36}}`, false}, "newer": {seen.Newer, "Hello, Ada!", false},
			} {
				if r.IsError != r.fails || len(r.Content) != 1 || !strings.Contains(r.Content[0].Text, r.text) {
					t.Errorf("%s: %+v", what, r.result)
				}
			}
			if fmt.Sprint(seen.Progress) != "[{first} {second}]" || len(seen.Asked) != 3 || !strings.Contains(seen.Asked[0], "May I?") || seen.Canceled != "error" {
				t.Errorf("%s", b)
			}
			if hosttest.Running("sleep", dir) {
				t.Error("the canceled command goes on")
			}
		})
	}
}

// TestInspector tests the official command-line client of MCP.
func TestInspector(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	server := hosttest.Toolhost(t, dir, "mcp")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--method", "tools/list"}, `"name": "test_echo"`},
		{[]string{"--method", "tools/call", "--tool-name", "read", "--tool-arg", "file_path=notes.txt", "--tool-arg", "limit=1"}, `"text": "one`},
		{[]string{"--method", "tools/call", "--tool-name", "test_echo", "--tool-arg", "text=hi", "--tool-arg", "times=3"}, `"text": "hihihi"`},
	} {
		// A script starts the server, because the inspector would interpret flags of the server as its own flags.
		run := filepath.Join(dir, "server")
		if err := os.WriteFile(run, []byte("#!/bin/sh\nexec '"+strings.Join(server.Args, "' '")+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c := hosttest.Node(t, append([]string{hosttest.Peer(t, "node_modules/@modelcontextprotocol/inspector/cli/build/index.js"), run}, tc.args...)...)
		c.Dir = dir
		if b, err := c.Output(); err != nil || !strings.Contains(string(b), tc.want) {
			t.Errorf("%v: %v\n%s", tc.args, err, b)
		}
	}
}

// TestConformance runs the official conformance suite. The server that the suite requires is mounted, so all messages
// pass through the host. All scenarios must pass.
func TestConformance(t *testing.T) {
	t.Parallel()
	for era, scenarios := range map[string]int{"2025-11-25": 33, "2026-07-28": 40} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(everything(t, "")), 0o600))
			base, _ := hosttest.Serve(t, dir, "--no-auth")
			c := hosttest.Node(t, hosttest.Peer(t, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "server", "--url", base+"/mcp", "--suite", "all", "--spec-version", era)
			c.Dir = t.TempDir()
			b, err := c.Output()
			_, summary, _ := strings.Cut(string(b), "=== SUMMARY ===")
			if passed := strings.Count(summary, "\n✓ "); err != nil || passed != scenarios {
				t.Errorf("%v: %d of %d scenarios pass\n%s", err, passed, scenarios, summary)
			}
		})
	}
}
