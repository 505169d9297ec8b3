package hosttest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Session is an MCP client that can send arbitrary lines to the server.
type Session struct {
	t   *testing.T
	in  io.WriteCloser
	Out *bufio.Reader
	End func() // end ends the program; also called at the end of the test
}

// LineSession starts "toolhost mcp" and initializes a session, in which the test writes and reads single lines.
func LineSession(t *testing.T, dir string, args ...string) *Session {
	t.Helper()
	c := Toolhost(t, dir, append(args, "mcp")...)
	in, out := Piped(t, c)
	s := &Session{t, in, out, sync.OnceFunc(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})}
	t.Cleanup(s.End)
	s.Say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.Hear(`"init"`)
	s.Say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// Say writes lines.
func (s *Session) Say(lines ...string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.Join(lines, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// Heard is a message of the server.
type Heard struct {
	ID     json.RawMessage
	Method string
	Error  *struct {
		Code    int
		Message string
	}
	Result struct {
		Content []struct{ Text string }
		IsError bool
	}
}

// Hear reads the next answer and checks that it answers the request with the given id.
func (s *Session) Hear(id string) Heard {
	s.t.Helper()
	for {
		line, err := s.Out.ReadBytes('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		var h Heard
		if err := json.Unmarshal(line, &h); err != nil || !bytes.HasPrefix(line, []byte(`{"jsonrpc":"2.0",`)) &&
			!bytes.HasPrefix(line, []byte(`{"id":`)) && h.Method == "" {
			s.t.Fatalf("%v: %.200s", err, line)
		}
		if h.Method != "" { // skip notifications
			continue
		}
		if string(h.ID) != id {
			s.t.Fatalf("an answer to %s, want %s: %.300s", h.ID, id, line)
		}
		return h
	}
}

// Eras lists the protocol revisions to test, with and without sessions.
var Eras = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// MCPConfig is the configuration of [MCPDir]. Its verb stands for the path of the test plugin.
const MCPConfig = `
plugin "read" {}
plugin "edit" {}
plugin "bash" {}
plugin "ask" {}
plugin "test" {
  path  = %q
  field = "test"
}
`

// MCPDir creates a workspace with a configuration and returns its path.
func MCPDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"toolhost.hcl": fmt.Sprintf(MCPConfig, filepath.Join(Bin, "testplugin")),
		"notes.txt": "one\ntwo\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Toolhost returns a command that trusts the configuration of the workspace dir and starts toolhost there.
func Toolhost(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(Bin, "trusting", "toolhost"),
		append([]string{"--state", KeptState(t, dir+".state")}, args...)...)
	c.Dir = dir
	c.Stderr = t.Output()
	return c
}

// Piped starts a command with pipes for input and output. The caller must wait for the command.
func Piped(t *testing.T, c *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return in, bufio.NewReaderSize(stdout, 1<<20)
}

// User answers questions of the server.
type User struct {
	Mu    sync.Mutex
	Asked []string
	Reply *mcp.ElicitResult
	// meanwhile is called before each answer. It can be nil.
	Meanwhile func()
}

func (u *User) answer(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Asked = append(u.Asked, req.Params.Message)
	if u.Meanwhile != nil {
		u.Meanwhile()
	}
	return u.Reply, nil
}

// Connect connects a client with the given protocol revision. The argument "u" can be nil.
func Connect(t *testing.T, era string, transport mcp.Transport, u *User,
	progress func(*mcp.ProgressNotificationParams)) *mcp.ClientSession {
	t.Helper()
	opts := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
		r *mcp.ProgressNotificationClientRequest) {
		if progress != nil {
			progress(r.Params)
		}
	}}
	if u != nil {
		opts.ElicitationHandler = u.answer
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), transport,
		&mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// CallTool calls a tool over MCP.
func CallTool(t *testing.T, s *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// Text returns the text of a result.
func Text(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	c, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%+v", res.Content)
	}
	return c.Text
}

// Bearer is a token that the requests of an HTTP client have.
type Bearer string

// RoundTrip implements http.RoundTripper.
func (b Bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// ApproverToken is the token of the client that answers permission requests.
const ApproverToken = "token-of-the-approver"

// hasPrincipals reports whether the configuration contains principals. In this case, the server creates no token.
func hasPrincipals(t *testing.T, dir string) bool {
	t.Helper()
	b, err := os.ReadFile(cmp.Or(os.Getenv("TOOLHOST_CONFIG"), filepath.Join(dir, "toolhost.hcl")))
	Must(t, err)
	return bytes.Contains(b, []byte("principal "))
}

// Serve starts "toolhost serve" and returns the address and the token of the server.
func Serve(t *testing.T, dir string, args ...string) (base, token string) {
	t.Helper()
	c := Toolhost(t, dir, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	c.Stderr, c.Env = nil, append(os.Environ(), "TOOLHOST_APPROVER_TOKEN="+ApproverToken)
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // output of the host after its start
	logged := make(chan struct{})
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-logged
		if err := c.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
		if t.Failed() {
			t.Logf("the host logged: %s", log.Bytes())
		}
	})
	lines := bufio.NewReader(said)
	for base == "" || token == "" && !slices.Contains(args, "--no-auth") && !hasPrincipals(t, dir) {
		line, err := lines.ReadString('\n')
		if err != nil {
			close(logged)
			t.Fatalf("the server does not listen: %v", err)
		}
		if _, addr, ok := strings.Cut(line, "listening on "); ok {
			base = strings.TrimSpace(addr)
		}
		if _, rest, ok := strings.Cut(line, "token "); ok {
			token = strings.Fields(rest)[0]
		}
	}
	go func() {
		defer close(logged)
		_, _ = io.Copy(&log, lines)
	}()
	return base, token
}

// Running reports whether the test started a program with the given name that runs in a directory below dir.
func Running(name, dir string) bool {
	return slices.ContainsFunc(Descendants(), func(p Process) bool {
		return p.Name() == name && strings.HasPrefix(p.Dir(), dir)
	})
}

// Peer returns the path of a file in the pinned npm packages of bench/peers. The path is that of the user's cache,
// because sandboxes get access to it.
func Peer(t *testing.T, path string) string {
	t.Helper()
	dir := os.Getenv("TOOLHOST_PEERS")
	if dir == "" {
		t.Fatal("TOOLHOST_PEERS is not set: run make test, which installs the peers")
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(dir, "node_modules"))
	Must(t, err)
	return filepath.Join(filepath.Dir(dir), path)
}

// Node returns a command that runs the Node of the pinned npm packages.
func Node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, Peer(t, "node_modules/node/bin/node"), args...)
	c.Stderr = t.Output()
	return c
}

// PostStateless sends a message of MCP 2026-07-28 and returns the body of the answer. An empty workspace is not sent.
func PostStateless(t *testing.T, url, token, method, name, workspace string, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	Must(t, err)
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": Eras[2],
		"Mcp-Method": method, "Mcp-Name": name, "Authorization": "Bearer " + token,
	} {
		req.Header.Set(k, v)
	}
	if workspace != "" {
		req.Header.Set("Toolhost-Workspace", workspace)
	}
	res, err := http.DefaultClient.Do(req)
	Must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	Must(t, err)
	return b
}

// Tell sends a function call over standard input.
func (s *Session) Tell(id, name string, args map[string]any) {
	s.t.Helper()
	line, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/call",
		"params": map[string]any{"name": name, "arguments": args},
	})
	Must(s.t, err)
	s.Say(string(line))
}

// Text reads the answer to a call and returns its text.
func (s *Session) Text(id string) string {
	s.t.Helper()
	h := s.Hear(id)
	if h.Error != nil || len(h.Result.Content) == 0 {
		s.t.Fatalf("%s: %+v", id, h)
	}
	return h.Result.Content[0].Text
}

// WaitsFor waits until the status of the running host contains a waiting call whose line contains a text.
func WaitsFor(t *testing.T, dir, want string) {
	t.Helper()
	Wait(t, "the status has "+want, func() bool {
		out, err := Toolhost(t, dir, "status").Output()
		Must(t, err)
		return strings.Contains(string(out), want)
	})
}
