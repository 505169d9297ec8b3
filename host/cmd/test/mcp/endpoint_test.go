package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

const endpointConfig = `
field "erp" {
  mcp { command = [%q, "many"] }
}
principal "alice" {}
principal "bob" { tools = ["read", "erp:get_*"] }
permissions {
  ask "signing" {
    tool   = ["erp:sign_contract"]
    reason = "a person signs"
  }
}
endpoint "auto" {}
endpoint "narrow" {
  tools      = ["read", "bash", "erp:get_*"]
  core       = ["read"]
  mode       = "lazy"
  principals = ["alice", "start-token"]
}
`

// endpointDir creates a workspace with 500 tools and returns its path.
func endpointDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, endpointConfig, filepath.Join(hosttest.Bin, "testserver")), 0o600))
	return dir
}

func listNames(t *testing.T, s *mcp.ClientSession) (out []string, bytes int, command string) {
	t.Helper()
	res, err := s.ListTools(t.Context(), nil)
	hosttest.Must(t, err)
	for _, tool := range res.Tools {
		b, err := json.Marshal(tool)
		hosttest.Must(t, err)
		bytes += len(b)
		out = append(out, tool.Name)
		if tool.Name == "bash" {
			command = tool.Description
		}
	}
	return out, bytes, command
}

// TestEndpoint tests a lazy endpoint with 500 tools for clients with and without sessions.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	dir := endpointDir(t)
	token := map[string]string{}
	for _, name := range []string{"alice", "bob"} {
		out, err := hosttest.Toolhost(t, dir, "token", "create", name).Output()
		hosttest.Must(t, err)
		token[name] = strings.TrimSpace(string(out))
	}
	base, _ := hosttest.Serve(t, dir)
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		legacy := era < "2026"
		t.Run("stdio "+era, func(t *testing.T) {
			changed := make(chan struct{}, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
			s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp", "--endpoint", "auto")}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			hosttest.Must(t, err)
			defer s.Close()
			names, bytes, command := listNames(t, s)
			if slices.Sort(names); !slices.Equal(names, []string{"bash", "edit", "find_tools", "grep", "read"}) || bytes > 12_000 {
				t.Errorf("%v, %d bytes", names, bytes)
			}
			if !strings.Contains(command, "\nerp (500): create_invoice, ") {
				t.Errorf("the description has no namespaces: %s", command)
			}
			answer := hosttest.Text(t, hosttest.CallTool(t, s, "find_tools", map[string]any{"query": "archive a supplier", "limit": 1}))
			if !strings.HasPrefix(answer, "field:erp archive_supplier --number <integer> [--reason <string>]") {
				t.Error(answer)
			}
			if strings.Contains(answer, "permission") {
				t.Errorf("an allowed tool: %s", answer)
			}
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "find_tools", map[string]any{"query": "sign a contract", "limit": 1})); !strings.Contains(got, "\n  needs a permission: a person signs (ask \"signing\" (") {
				t.Errorf("a tool that asks: %s", got)
			}
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": "field:erp archive_supplier --number 5"})); got != "called archive_supplier" {
				t.Errorf("the command of the answer: %s", got)
			}
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "erp_archive_supplier", map[string]any{"number": 5})); got != "called archive_supplier" {
				t.Errorf("by its function name: %s", got)
			}
			if legacy {
				<-changed
			}
			if names, _, _ = listNames(t, s); slices.Contains(names, "erp_archive_supplier") != legacy {
				t.Errorf("after the search: %v", names)
			}
			for _, query := range []string{"invoice", "customer", "order"} { // each of these queries matches 20 tools
				hosttest.CallTool(t, s, "find_tools", map[string]any{"query": query, "limit": 20})
			}
			names, _, _ = listNames(t, s)
			want := 5
			if legacy {
				want += 20
			}
			if len(names) != want || slices.Contains(names, "erp_archive_supplier") {
				t.Errorf("after further searches: %v", names)
			}
			if !legacy && len(changed) > 0 {
				t.Error("a client without a session was notified of a changed list")
			}
		})
		t.Run("http "+era, func(t *testing.T) {
			at := func(name, endpoint string) *mcp.ClientSession {
				return hosttest.Connect(t, era, &mcp.StreamableClientTransport{Endpoint: base + "/mcp/" + endpoint, HTTPClient: &http.Client{Transport: hosttest.Bearer(token[name])}}, nil, nil)
			}
			alice, bob := at("alice", "narrow"), at("bob", "auto")
			for _, c := range []struct {
				who               *mcp.ClientSession
				command, function string
				allowed           bool
				reason            string
			}{
				{alice, "field:erp get_invoice --number 1", "erp_get_invoice", true, ""},
				{alice, "field:erp delete_invoice --number 1", "erp_delete_invoice", false, "The endpoint narrow does not offer erp:delete_invoice."},
				{alice, "echo $(field:erp delete_invoice --number 1)", "", false, "The endpoint narrow does not offer erp:delete_invoice."},
				{bob, "field:erp get_invoice --number 1", "erp_get_invoice", true, ""},
				{bob, "field:erp delete_invoice --number 1", "", false, `Principal "bob" may not call erp:delete_invoice.`},
			} {
				got := hosttest.Text(t, hosttest.CallTool(t, c.who, "bash", map[string]any{"command": c.command}))
				if c.allowed != (got == "called get_invoice") || !strings.Contains(got, c.reason) {
					t.Errorf("%s: %s", c.command, got)
				}
				if c.function == "" {
					continue
				}
				if res, err := c.who.CallTool(t.Context(), &mcp.CallToolParams{Name: c.function, Arguments: map[string]any{"number": 1}}); (err == nil && !res.IsError) != c.allowed {
					t.Errorf("%s: %+v, %v", c.function, res, err)
				}
			}
			for who, s := range map[string]*mcp.ClientSession{"alice": alice, "bob": bob} {
				answer := hosttest.Text(t, hosttest.CallTool(t, s, "find_tools", map[string]any{"query": "delete an invoice", "limit": 50}))
				_, _, command := listNames(t, s)
				if strings.Contains(answer, "delete_") || !strings.Contains(answer, "erp get_invoice") || !strings.Contains(command, "erp (25): get_invoice") {
					t.Errorf("%s sees a tool that it may not call, or too few:\n%s\n%s", who, answer, command)
				}
			}
		})
	}
	for _, c := range []struct{ who, endpoint string }{{"bob", "narrow"}, {"alice", "missing"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp/"+c.endpoint, strings.NewReader("{}"))
		hosttest.Must(t, err)
		res, err := (&http.Client{Transport: hosttest.Bearer(token[c.who])}).Do(req)
		hosttest.Must(t, err)
		if res.Body.Close(); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s at %s: %s", c.who, c.endpoint, res.Status)
		}
	}
}

// TestEndpointRelay checks that an endpoint also restricts the prompts and resources of mounted servers.
func TestEndpointRelay(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := everything(t, "") + `
endpoint "files" { tools = ["read"] }
endpoint "whole" { tools = ["read", "test:*"] }
`
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	for endpoint, offered := range map[string]bool{"files": false, "whole": true} {
		s := relayClient(t, "2025-11-25", hosttest.Toolhost(t, dir, "mcp", "--endpoint", endpoint), new(relayed))
		prompts, err := s.ListPrompts(t.Context(), nil)
		hosttest.Must(t, err)
		if got := len(prompts.Prompts) > 0; got != offered {
			t.Errorf("%s lists %d prompts", endpoint, len(prompts.Prompts))
		}
		if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_simple_prompt"}); (err == nil) != offered {
			t.Errorf("%s: a prompt: %v", endpoint, err)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static-text"}); (err == nil) != offered {
			t.Errorf("%s: a resource: %v", endpoint, err)
		}
		_ = s.Close()
	}
}
