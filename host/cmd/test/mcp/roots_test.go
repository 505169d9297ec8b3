package mcp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestMCPRoots checks that tools work in the directory that a client on standard input and output names. If the start
// directory of the server is too broad, tools must work only in the client's directory.
func TestMCPRoots(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	project, other := filepath.Join(dir, "home", "project"), filepath.Join(dir, "home", "other")
	for d, text := range map[string]string{project: "mine\n", other: "theirs\n"} {
		hosttest.Must(t, os.MkdirAll(d, 0o700))
		hosttest.Must(t, os.WriteFile(filepath.Join(d, "a.txt"), []byte(text), 0o600))
	}
	connect := func(args []string, roots ...string) (*mcp.ClientSession, *mcp.Client) {
		t.Helper()
		command := hosttest.Toolhost(t, filepath.Join(dir, "home"), append(args, "mcp")...)
		command.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"))
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		for _, r := range roots {
			client.AddRoots(&mcp.Root{URI: "file://" + r}) //nolint:staticcheck // clients of earlier revisions have roots
		}
		s, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: command}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		hosttest.Must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s, client
	}
	text := func(s *mcp.ClientSession, file string) string {
		t.Helper()
		return hosttest.Text(t, hosttest.CallTool(t, s, "read", map[string]any{"file_path": file}))
	}
	s, client := connect(nil, project)
	for range 20 { // the first calls wait for the roots
		if got := text(s, "a.txt"); !strings.Contains(got, "mine") {
			t.Fatalf("in the client's root: %s", got)
		}
	}
	client.RemoveRoots("file://" + project)            //nolint:staticcheck // as above
	client.AddRoots(&mcp.Root{URI: "file://" + other}) //nolint:staticcheck // as above
	deadline := 0
	for !strings.Contains(text(s, "a.txt"), "theirs") {
		if deadline++; deadline > 1000 {
			t.Fatal("the changed roots are not used")
		}
	}
	s, _ = connect(nil)
	if got := text(s, "project/a.txt"); !strings.Contains(got, "is your home directory, and tools could change everything in it") {
		t.Errorf("in the home directory: %s", got)
	}
	s, _ = connect([]string{"--workspace", other}, project)
	if got := text(s, "a.txt"); !strings.Contains(got, "theirs") {
		t.Errorf("with --workspace: %s", got)
	}
}
