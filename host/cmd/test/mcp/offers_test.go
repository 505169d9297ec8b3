package mcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestPromptsOfPlugins checks the prompts and resources of a plugin in Go with two protocol revisions. Rules of the
// operator must apply to them, and a panic must fail only its own request.
func TestPromptsOfPlugins(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, `
plugin "test" {
  path  = %q
  args  = ["offers"]
  field = "test"
}
permissions {
  deny "flags" {
    tool   = ["test:resource/town://Berlin/*"]
    reason = "not this one"
  }
}
`, filepath.Join(hosttest.Bin, "testplugin")), 0o600))
			s := relayClient(t, era, hosttest.Toolhost(t, dir, "mcp"), new(relayed))
			prompts, err := s.ListPrompts(t.Context(), nil)
			hosttest.Must(t, err)
			if len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "test_plan" || prompts.Prompts[0].Title != "Plan a trip" || !prompts.Prompts[0].Arguments[0].Required {
				t.Fatalf("%+v", prompts.Prompts)
			}
			got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_plan", Arguments: map[string]string{"town": "Berlin", "days": "3"}})
			hosttest.Must(t, err)
			if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "Plan 3 days in Berlin." || got.Messages[0].Role != "user" || got.Messages[1].Role != "assistant" {
				t.Errorf("%+v", got)
			}
			refused := func(err error, code int64, want string) {
				t.Helper()
				var wire *jsonrpc.Error
				if !errors.As(err, &wire) || wire.Code != code || !strings.Contains(wire.Message, want) {
					t.Errorf("%v, want %d and %q", err, code, want)
				}
			}
			_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_plan"})
			refused(err, jsonrpc.CodeInvalidParams, `The prompt plan needs the argument "town".`)
			_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_plan", Arguments: map[string]string{"town": "panic"}})
			refused(err, jsonrpc.CodeInternalError, "no such town")
			values, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "test_plan"}, Argument: mcp.CompleteParamsArgument{Name: "town", Value: "A"}})
			hosttest.Must(t, err)
			if got := strings.Join(values.Completion.Values, ","); got != "Aachen,Augsburg" {
				t.Errorf("completions: %s", got)
			}
			list, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "town://list"})
			hosttest.Must(t, err)
			if list.Contents[0].Text != "Aachen\nAugsburg\nBerlin" || list.Contents[0].MIMEType != "text/plain" {
				t.Errorf("%+v", list.Contents[0])
			}
			flag, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "town://Aachen/flag"})
			hosttest.Must(t, err)
			if string(flag.Contents[0].Blob) != "Aachen" || flag.Contents[0].URI != "town://Aachen/flag" {
				t.Errorf("%+v", flag.Contents[0])
			}
			_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "town://Bonn/flag"})
			refused(err, jsonrpc.CodeInvalidParams, `There is no town "Bonn". Read town://list.`)
			_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "town://Berlin/flag"})
			if err == nil || !strings.Contains(err.Error(), "not this one") {
				t.Errorf("the rule was not applied: %v", err)
			}
		})
	}
}
