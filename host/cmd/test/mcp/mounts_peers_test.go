//go:build oracle

package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestMountedServers mounts pinned versions of popular MCP servers and calls their tools.
func TestMountedServers(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("one\ntwo\n"), 0o600))
	node := hosttest.Peer(t, "node_modules/node/bin/node")
	var config strings.Builder
	for name, args := range map[string]string{"filesystem": `"."`, "everything": `"stdio"`, "memory": ""} {
		fmt.Fprintf(&config, "field %q {\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q, %q, %s]\n    env = { MEMORY_FILE_PATH = \"%s/memory.jsonl\" }\n  }\n}\n", name,
			hosttest.Peer(t, ""), node, hosttest.Peer(t, "node_modules/@modelcontextprotocol/server-"+name+"/dist/index.js"), args, dir)
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config.String()), 0o600))

	c := hosttest.Toolhost(t, dir, "tools")
	c.Stderr = nil
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	for _, want := range []string{"filesystem:read_text_file", "filesystem:write_file", "everything:echo", "memory:create_entities"} {
		if !strings.Contains(string(b), "\n"+want+" ") {
			t.Errorf("there is no %s:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "is not registered") {
		t.Errorf("tools are refused:\n%s", b)
	}
	c = hosttest.Toolhost(t, dir, "tools", "search", "add two numbers")
	if b, err := c.Output(); err != nil || !strings.HasPrefix(string(b), "field:everything get-sum ") {
		t.Errorf("another tool than get-sum adds two numbers: %v\n%s", err, b)
	}
	type result struct {
		Output      string
		Error       *struct{ Kind, Message string }
		Data        json.RawMessage
		Attachments []struct {
			Type      string
			MediaType string `json:"media_type"`
			Content   []byte
		}
	}
	call := func(command string) (r result) {
		t.Helper()
		c := hosttest.Toolhost(t, dir, "--json", "run", command)
		b, _ := c.Output() // ignore the error: if the command fails, the output contains the reason
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, b)
		}
		return r
	}
	for command, want := range map[string]string{
		"filesystem:read_text_file notes.txt --head 1":                     "one",
		"field:filesystem write_file new.txt hello":                        "Successfully wrote",
		"everything:echo hi":                                               "hi",
		"everything:get-sum 2 3":                                           "5",
		"everything:trigger-long-running-operation --duration 1 --steps 2": "completed",
		`memory:create_entities '[{"name":"Ada","entityType":"person","observations":["wrote notes"]}]'`: "Ada",
	} {
		if r := call(command); r.Error != nil || !strings.Contains(r.Output, want) {
			t.Errorf("%s: %+v, want %q", command, r, want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "new.txt")); err != nil || string(b) != "hello" {
		t.Errorf("the file written: %q, %v", b, err)
	}
	if r := call("memory:read_graph"); r.Error != nil || !strings.Contains(string(r.Data), `"Ada"`) {
		t.Errorf("the graph that another process stored: %+v", r)
	}
	if r := call("everything:get-tiny-image"); r.Error != nil || len(r.Attachments) != 1 || r.Attachments[0].Type != "image" || r.Attachments[0].MediaType != "image/png" || len(r.Attachments[0].Content) == 0 {
		t.Errorf("image: %+v", r)
	}
	if r := call("filesystem:read_text_file /etc/hostname"); r.Error == nil || r.Error.Kind != "execution_failed" || !strings.Contains(r.Error.Message, "denied") {
		t.Errorf("outside: %+v", r)
	}
}
