package mcp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestNewestServer mounts a remote server that speaks only the revision without sessions. Clients of each revision must
// be able to use all features of the server. A server that speaks only an unknown revision must lead to an error that
// names the revisions.
//
//nolint:staticcheck // revisions before 2026-07-28 have sampling
func TestNewestServer(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := filepath.Join(dir, "toolhost.hcl")
	hosttest.Must(t, os.Remove(config))
	server := exec.Command(filepath.Join(hosttest.Bin, "testserver"), "newest", config)
	server.Stderr = t.Output()
	hosttest.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	hosttest.Wait(t, "the server has written its configuration", func() bool {
		_, err := os.Stat(config)
		return err == nil
	})
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "hello"}, Model: "m", Role: "assistant"}, nil
				},
			})
			program := hosttest.Toolhost(t, dir, "mcp")
			var said strings.Builder
			program.Stderr = &said
			s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: program}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			hosttest.Must(t, err)
			defer s.Close()
			if got := hosttest.Text(t, hosttest.CallTool(t, s, "newest_model", nil)); got != "the model said hello" {
				t.Error(got)
			}
			if p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "newest_hello"}); err != nil {
				t.Error(err)
			} else if c, _ := p.Messages[0].Content.(*mcp.TextContent); c == nil || c.Text != "Say hello." {
				t.Errorf("%+v", p.Messages[0].Content)
			}
			hosttest.Must(t, s.Close())
			if era == hosttest.Eras[0] && (!strings.Contains(said.String(), "Plugin future did not start") || !strings.Contains(said.String(), "2027-03-01") || !strings.Contains(said.String(), hosttest.Eras[2])) {
				t.Errorf("the server of an unknown revision: %s", said.String())
			}
		})
	}
}
