package branches

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// TestBranchOverMCP checks that an agent can review and apply branches over MCP, through standard input and output and
// over HTTP.
func TestBranchOverMCP(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		dir := hosttest.MCPDir(t)
		u := &hosttest.User{}
		reviewed(t, hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "--config", withBranchTool(t), "mcp")}, u, nil), u, filepath.Join(dir, "notes.txt"))
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		dir := hosttest.MCPDir(t)
		base, token := hosttest.Serve(t, dir, "--config", withBranchTool(t))
		u := &hosttest.User{}
		reviewed(t, hosttest.Connect(t, hosttest.Eras[1], &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}}, u, nil), u, filepath.Join(dir, "notes.txt"))
	})
}

// branchToolOn is the configuration that enables the tool "branch".
const branchToolOn = "tool \"branch\" {\n  enabled = true\n}\n"

// withBranchTool returns a configuration file that enables the tool "branch".
func withBranchTool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "branch.hcl")
	hosttest.Must(t, os.WriteFile(path, []byte(branchToolOn), 0o600))
	return path
}

// reviewed changes a file in a branch, and checks that the branch is applied only after the user agrees.
func reviewed(t *testing.T, s *mcp.ClientSession, u *hosttest.User, file string) {
	t.Helper()
	in := func(branch, name string, args map[string]any) (string, bool) {
		t.Helper()
		p := &mcp.CallToolParams{Name: name, Arguments: args}
		if branch != "" {
			p.Meta = mcp.Meta{"toolhost.dev/branch": branch}
		}
		res, err := s.CallTool(t.Context(), p)
		hosttest.Must(t, err)
		return hosttest.Text(t, res), !res.IsError
	}
	wants := func(want string, success bool, branch string, args map[string]any) {
		t.Helper()
		if got, ok := in(branch, "branch", args); ok != success || !strings.Contains(got, want) {
			t.Errorf("branch %v in %q printed %q (success %t), want %q", args, branch, got, ok, want)
		}
	}
	content := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("the workspace has %q, %v, want %q", got, err, want)
		}
	}
	in("kept", "bash", map[string]any{"command": "echo kept > kept"})
	in("b", "bash", map[string]any{"command": "echo three >> notes.txt"})
	wants("+three", true, "b", map[string]any{})
	wants("+three", true, "", map[string]any{"name": "b"})
	wants("(the branch of this session)", true, "b", map[string]any{"action": "list"})
	wants("Checkpoint 2", true, "b", map[string]any{"action": "checkpoint", "message": "three"})
	in("b", "bash", map[string]any{"command": "echo four >> notes.txt; echo x > x"})
	wants("-four", true, "b", map[string]any{"action": "restore", "checkpoint": 2})
	wants("only in the branch of its own session", false, "", map[string]any{"action": "restore", "name": "b", "checkpoint": 2})
	wants("only in the branch of its own session", false, "", map[string]any{"action": "restore", "name": "2"})
	wants("so name one", false, "", map[string]any{"action": "checkpoint"})

	// The user must see the diff before the decision.
	u.Reply = &mcp.ElicitResult{Action: "decline"}
	wants("whether to apply a branch is decided by a person", false, "b", map[string]any{"action": "apply"})
	content("one\ntwo\n")
	if len(u.Asked) != 1 || !strings.Contains(u.Asked[0], "+three") || !strings.Contains(u.Asked[0], "Make 1 change of the branch b in the workspace?") {
		t.Errorf("the user was asked %q", u.Asked)
	}
	u.Reply = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}
	wants("Applied 1 change of the branch b", true, "b", map[string]any{"action": "apply"})
	content("one\ntwo\nthree\n")
	wants("changes nothing there", true, "b", map[string]any{})
	wants("was discarded", true, "", map[string]any{"action": "discard", "name": "b"})
	wants(`no branch "b"`, false, "", map[string]any{"name": "b"})
}

// TestBranchToolObeysRules checks that the tool "branch" obeys the rules when it applies a branch. It must not apply a
// change that the session may not make, or a change that was not shown to the person. It must fail while a command runs
// in the branch.
func TestBranchToolObeysRules(t *testing.T) {
	t.Parallel()
	h, ws, run := previewHost(t, branchToolOn+`
permissions {
  paths { deny = ["**/*.key"] }
  deny "deployment" {
    tool = ["branch", "edit"]
    path = ["deploy/**"]
  }
}
`, map[string]string{"a": "a\n", "deploy/x": "x\n"})
	yes, no := &approver{answer: tool.Accepted}, &approver{answer: tool.Declined}
	says := func(a *approver, branch, command, want string) {
		t.Helper()
		if got := said(run(a, branch, command)); !strings.Contains(got, want) {
			t.Errorf("%s in branch %q printed %q, want %q", command, branch, got, want)
		}
	}
	says(yes, "b", "echo b > a; awk 'BEGIN { print \"b\" > \"deploy/x\" }'; mkdir -p new/deep; echo n > new/deep/f; cat deploy/x", "b\n")
	before := treeOf(t, ws)
	says(yes, "b", "branch apply", `deploy/x is denied by deny "deployment"`)
	if now := treeOf(t, ws); now != before || len(yes.asks) > 0 {
		t.Errorf("a denied apply asked %d times and left:\n%s", len(yes.asks), now)
	}
	says(no, "b", "branch apply b a", "decided by a person")
	says(yes, "b", "echo $(tool:branch apply b a 2>&1)", "cannot change the branch below itself")
	says(yes, "b", "tool:branch diff b a | head -1", "--- a/a")
	if now := treeOf(t, ws); now != before {
		t.Errorf("a refused apply left:\n%s", now)
	}

	// Another session changes the branch while the person decides.
	other := &approver{answer: tool.Accepted, before: func() {
		if res := h.Run(t.Context(), host.Request{Command: "echo unseen > a", Branch: "b", Session: "other"}, nil); !res.Success() {
			t.Error(said(res))
		}
	}}
	says(other, "b", "branch apply b a", "while a person decided, something changed")
	if now := treeOf(t, ws); now != before {
		t.Errorf("a change was applied that the person did not see:\n%s", now)
	}
	says(yes, "", "branch apply b a", "Applied 1 change")
	says(yes, "", "cat a", "unseen")
	if got := diffOf(yes.asks[len(yes.asks)-1]); !strings.Contains(got, "+unseen") || strings.Contains(got, "deploy") {
		t.Errorf("the person saw %q", got)
	}

	// A diff must not show files that the session may not read. The test writes such files into the layer.
	layer, err := filepath.Glob(filepath.Join(filepath.Dir(ws), "state/branches/b@*/upper"))
	hosttest.Must(t, err)
	hosttest.Must(t, h.ReleaseBranch(host.Request{Branch: "b"}))
	writeFiles(t, layer[0], map[string]string{"top.key": "SECRET", "keys/own.key": "SECRET", "keys/plain": "p"})
	got := said(run(yes, "", "branch diff b"))
	if strings.Contains(got, "SECRET") || !strings.Contains(got, "top.key (6 bytes) [not shown") || !strings.Contains(got, "may not read keys/own.key") {
		t.Errorf("the diff is %q", got)
	}
	says(yes, "", "branch apply b keys", "own.key")
	if _, err := os.Stat(filepath.Join(ws, "keys")); err == nil {
		t.Error("a path that the session may not change was applied")
	}
}

// TestBranchOfConnection checks from where an MCP connection takes the branch of its calls: from --branch, or from the
// metadata of initialize. The metadata of a call has precedence.
func TestBranchOfConnection(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	for _, tc := range []struct{ kind, flag, meta string }{{"flag", "--branch=own", ""}, {"initialize", "", `,"_meta":{"toolhost.dev/branch":"own"}`}} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "ws")
			writeFiles(t, dir, map[string]string{"a": "a\n"})
			args := []string{"mcp"}
			if tc.flag != "" {
				args = append(args, tc.flag)
			}
			c := hosttest.Toolhost(t, dir, args...)
			in, out := hosttest.Piped(t, c)
			say := func(line string) {
				t.Helper()
				_, err := fmt.Fprintln(in, line)
				hosttest.Must(t, err)
			}
			call := func(id, command, meta string) string {
				t.Helper()
				say(`{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"bash","arguments":{"command":"` + command + `"}` + meta + `}}`)
				for {
					line, err := out.ReadString('\n')
					hosttest.Must(t, err)
					if strings.Contains(line, `"id":"`+id+`"`) {
						return line
					}
				}
			}
			say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}` + tc.meta + `}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			call("1", "echo own > made", "")
			call("2", "echo other > made", `,"_meta":{"toolhost.dev/branch":"other"}`)
			if got := call("3", "cat made", ""); !strings.Contains(got, "own") {
				t.Errorf("the file in the branch of the connection is %s", got)
			}
			if got := call("4", "cat made", `,"_meta":{"toolhost.dev/branch":"other"}`); !strings.Contains(got, "other") {
				t.Errorf("the file in the branch of the call is %s", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
				t.Error("the workspace was changed")
			}
			hosttest.Must(t, in.Close())
			hosttest.Must(t, c.Wait())
		})
	}
}
