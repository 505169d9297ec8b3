package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// everything returns a configuration that mounts the SDK's server with all features. The field is named "test", because
// the names that the conformance suite expects begin with this word.
func everything(t *testing.T, rules string) string {
	t.Helper()
	return fmt.Sprintf(`
field "test" {
  sandbox { read = [%q] }
  mcp {
    command = [%q]
    offer   = ["tools", "prompts", "resources", "completions", "logging"]
    allow   = ["elicitation", "sampling", "roots"]
  }
}
alias "json_schema_2020_12_tool" {
  tool = "test:json_schema_2020_12_tool"
}
permissions {
  allow "models" { kind = ["sampling"] }
  %s
}
`, hosttest.Bin, filepath.Join(hosttest.Bin, "everything"), rules)
}

// relayed collects the messages that a client receives.
type relayed struct {
	mu     sync.Mutex
	logs   []string
	forms  []string
	prompt []string
}

//nolint:staticcheck // revisions before 2026-07-28 have logging, sampling and roots
func relayClient(t *testing.T, era string, server *exec.Cmd, seen *relayed) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			seen.logs = append(seen.logs, fmt.Sprint(r.Params.Data))
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			b, _ := json.Marshal(r.Params.RequestedSchema)
			seen.forms = append(seen.forms, string(b))
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada", "age": 36}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			b, _ := json.Marshal(r.Params.Messages)
			seen.prompt = append(seen.prompt, string(b))
			return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "Paris"}, Model: "m", Role: "assistant"}, nil
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///", Name: "everything"}, &mcp.Root{URI: "file://" + server.Dir, Name: "own"})
	s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: server}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestRelay checks all features of a mounted server through the program, in both generations of the protocol.
//
//nolint:staticcheck // see relayClient
func TestRelay(t *testing.T) {
	t.Parallel()
	const denied = `deny "images" {
    tool   = ["test:prompt/test_prompt_with_image"]
    reason = "no images here"
  }`
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(everything(t, denied)), 0o600))
			seen := new(relayed)
			s := relayClient(t, era, hosttest.Toolhost(t, dir, "mcp"), seen)

			prompts, err := s.ListPrompts(t.Context(), nil)
			hosttest.Must(t, err)
			if !slices.ContainsFunc(prompts.Prompts, func(p *mcp.Prompt) bool { return p.Name == "test_simple_prompt" && p.Title == "Simple Test Prompt" }) {
				t.Errorf("%+v", prompts.Prompts)
			}
			p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "x", "arg2": "y"}})
			hosttest.Must(t, err)
			if c, _ := p.Messages[0].Content.(*mcp.TextContent); c == nil || c.Text != "Prompt with arguments: arg1='x', arg2='y'" {
				t.Errorf("%+v", p.Messages[0].Content)
			}
			// The rules of the operator apply to prompts.
			if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_prompt_with_image"}); err == nil || !strings.Contains(err.Error(), "no images here") {
				t.Errorf("a denied prompt: %v", err)
			}
			r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://template/7/data"})
			hosttest.Must(t, err)
			if len(r.Contents) != 1 || r.Contents[0].Text != `{"id": "7", "templateTest": true, "data": "Data for ID: 7"}` || r.Contents[0].URI != "test://template/7/data" {
				t.Errorf("%+v", r.Contents[0])
			}
			_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://none"})
			if e := (*jsonrpc.Error)(nil); !errors.As(err, &e) || !strings.Contains(string(e.Data), "test://none") {
				t.Errorf("an unknown resource: %v", err)
			}
			if res := hosttest.CallTool(t, s, "test_multiple_content_types", nil); len(res.Content) != 3 {
				t.Errorf("%+v", res.Content)
			} else if c, ok := res.Content[2].(*mcp.EmbeddedResource); !ok || c.Resource.URI != "test://embedded-in-multiple" || c.Resource.Text != "This is an embedded resource" {
				t.Errorf("%+v", res.Content[2])
			}
			// A server sees only those roots of the client that the operator has permitted.
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "test_input_required_result_list_roots", nil)); !strings.Contains(got, "Client exposed 1 root(s)") || !strings.Contains(got, dir) {
				t.Errorf("roots: %s", got)
			}
			if era == "2025-11-25" {
				hosttest.Must(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
				hosttest.CallTool(t, s, "test_tool_with_logging", nil)
				if got := hosttest.Text(t, hosttest.CallTool(t, s, "test_sampling", map[string]any{"prompt": "What is the capital?"})); !strings.Contains(got, "Paris") || !strings.Contains(seen.prompt[0], "capital") {
					t.Errorf("sampling: %s %s", got, seen.prompt)
				}
				if got := hosttest.Text(t, hosttest.CallTool(t, s, "test_elicitation_sep1034_defaults", nil)); !strings.Contains(got, "action=accept") || !strings.Contains(got, "age:36") || len(seen.forms) != 1 || !strings.Contains(seen.forms[0], `"default":"John Doe"`) {
					t.Errorf("form: %s %s", got, seen.forms)
				}
				if fmt.Sprint(seen.logs) != "[Tool execution started Tool processing data Tool execution completed]" {
					t.Errorf("logs: %q", seen.logs)
				}
			} else if got := hosttest.Text(t, hosttest.CallTool(t, s, "test_input_required_result_multiple_inputs", nil)); !strings.Contains(got, "Paris Ada — 1 root(s) visible") {
				t.Errorf("several requests: %s", got)
			}
			hosttest.Must(t, s.Close())

			// The audit log must contain these exchanges.
			b, err := hosttest.Toolhost(t, dir, "log", "--json").Output()
			hosttest.Must(t, err)
			for _, want := range []string{`test:prompt/test_prompt_with_arguments`, `test:prompt/test_prompt_with_image`, `test:resource/test://template/7/data`, `permission_denied`} {
				if !strings.Contains(string(b), want) {
					t.Errorf("the audit log lacks %s:\n%s", want, b)
				}
			}
		})
	}
}

// TestNothingIsRelayed checks the defaults of a mount. Without the attribute offer, the mount offers only its tools.
// Without the attribute allow, its server can ask the client only for forms.
//
//nolint:staticcheck // see relayClient
func TestNothingIsRelayed(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := fmt.Sprintf("field \"test\" {\n  sandbox { read = [%q] }\n  mcp { command = [%q] }\n}\nfield \"bad\" {\n  mcp { command = [%q, \"plain\"] }\n}\n", hosttest.Bin, filepath.Join(hosttest.Bin, "everything"), filepath.Join(hosttest.Bin, "testserver"))
	// A rule permits nothing without the attribute allow.
	config += "permissions {\n  allow \"models\" { kind = [\"sampling\"] }\n}\n"
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	seen := new(relayed)
	s := relayClient(t, "2025-11-25", hosttest.Toolhost(t, dir, "mcp"), seen)
	if c := s.InitializeResult().Capabilities; c.Prompts != nil || c.Resources != nil || c.Logging != nil || c.Completions != nil || c.Tools == nil {
		t.Errorf("%+v", c)
	}
	// A tool with an invalid schema is still listed, unless clients must not use the tool.
	tools, err := s.ListTools(t.Context(), nil)
	hosttest.Must(t, err)
	var names []string
	for _, listed := range tools.Tools {
		names = append(names, listed.Name)
		if listed.Name == "bad_loose" && listed.Title != "A loose tool" {
			t.Errorf("the title is %q", listed.Title)
		}
	}
	if !slices.Contains(names, "bad_echo") || !slices.Contains(names, "bad_loose") || slices.Contains(names, "bad_header") {
		t.Errorf("%q", names)
	}
	if _, err := s.ListPrompts(t.Context(), nil); err == nil {
		t.Error("prompts are listed")
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static-text"}); err == nil {
		t.Error("a resource is read")
	}
	res := hosttest.CallTool(t, s, "test_input_required_result_sampling", nil)
	if got := hosttest.Text(t, res); !res.IsError || len(seen.prompt) > 0 {
		t.Errorf("the client's model is used: %s", got)
	}
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "test_input_required_result_list_roots", nil)); strings.Contains(got, "file:///,") || strings.HasSuffix(got, "file:///") {
		t.Errorf("the server sees the client's roots: %s", got)
	}
}
