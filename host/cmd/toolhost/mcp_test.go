package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eras lists the protocol revisions to test, with and without sessions.
var eras = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

const mcpConfig = `
plugin "read" {}
plugin "edit" {}
plugin "bash" {}
plugin "ask" {}
plugin "test" {
  path  = %q
  field = "test"
}
`

// mcpDir creates a workspace with a configuration and returns its path.
func mcpDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"toolhost.hcl": fmt.Sprintf(mcpConfig, filepath.Join(bin, "testplugin")), "notes.txt": "one\ntwo\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func toolhost(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(bin, "trusting", "toolhost"), append([]string{"--state", keptState(t, dir+".state")}, args...)...)
	c.Dir = dir
	c.Stderr = t.Output()
	return c
}

// piped starts a command with pipes for input and output. The caller must wait for the command.
func piped(t *testing.T, c *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
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

// user answers questions of the server.
type user struct {
	mu    sync.Mutex
	asked []string
	reply *mcp.ElicitResult
	// meanwhile is called before each answer. It can be nil.
	meanwhile func()
}

func (u *user) answer(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, req.Params.Message)
	if u.meanwhile != nil {
		u.meanwhile()
	}
	return u.reply, nil
}

// connect connects a client with the given protocol revision. The argument "u" can be nil.
func connect(t *testing.T, era string, transport mcp.Transport, u *user, progress func(*mcp.ProgressNotificationParams)) *mcp.ClientSession {
	t.Helper()
	opts := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		if progress != nil {
			progress(r.Params)
		}
	}}
	if u != nil {
		opts.ElicitationHandler = u.answer
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func callTool(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func text(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	c, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%+v", res.Content)
	}
	return c.Text
}

// TestMCP tests clients of each protocol revision over standard input and output and over HTTP.
func TestMCP(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run("stdio "+era, func(t *testing.T) {
			t.Parallel()
			dir := mcpDir(t)
			clientTest(t, era, dir, func() mcp.Transport {
				return &mcp.CommandTransport{Command: toolhost(t, dir, "mcp")}
			})
		})
		t.Run("http "+era, func(t *testing.T) {
			t.Parallel()
			dir := mcpDir(t)
			base, token := serve(t, dir)
			clientTest(t, era, dir, func() mcp.Transport {
				return &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
			})
		})
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// approverToken is the token of the client that answers permission requests.
const approverToken = "token-of-the-approver"

// hasPrincipals reports whether the configuration contains principals. In this case, the server creates no token.
func hasPrincipals(t *testing.T, dir string) bool {
	t.Helper()
	b, err := os.ReadFile(cmp.Or(os.Getenv("TOOLHOST_CONFIG"), filepath.Join(dir, "toolhost.hcl")))
	must(t, err)
	return bytes.Contains(b, []byte("principal "))
}

// serve starts "toolhost serve" and returns the address and the token of the server.
func serve(t *testing.T, dir string, args ...string) (base, token string) {
	t.Helper()
	c := toolhost(t, dir, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	c.Stderr, c.Env = nil, append(os.Environ(), "TOOLHOST_APPROVER_TOKEN="+approverToken)
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

func clientTest(t *testing.T, era, dir string, transport func() mcp.Transport) {
	var mu sync.Mutex
	var notes []*mcp.ProgressNotificationParams
	u := &user{}
	s := connect(t, era, transport(), u, func(p *mcp.ProgressNotificationParams) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, p)
	})

	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*mcp.Tool)
	for _, tool := range list.Tools {
		byName[tool.Name] = tool
		if b, _ := json.Marshal(tool); bytes.Contains(b, []byte("x-toolhost")) {
			t.Errorf("%s", b)
		}
	}
	if read := byName["read"]; read == nil || !read.Annotations.ReadOnlyHint || *read.Annotations.OpenWorldHint || byName["test_echo"] == nil || byName["test_off"] != nil || byName["bash"] == nil {
		t.Errorf("%v", byName)
	}

	if res := callTool(t, s, "read", map[string]any{"file_path": "notes.txt"}); res.IsError || text(t, res) != "one\ntwo\n" {
		t.Errorf("%+v", res)
	}
	if res := callTool(t, s, "read", map[string]any{"file_path": "notes.txt", "limitt": 1}); !res.IsError || !strings.Contains(text(t, res), `did you mean "limit"`) && !strings.Contains(text(t, res), "Did you mean") {
		t.Errorf("%v", text(t, res))
	} else if meta, _ := json.Marshal(res.Meta); !bytes.Contains(meta, []byte(`"kind":"invalid_arguments"`)) {
		t.Errorf("%s", meta)
	}
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nope", Arguments: map[string]any{}})
	if e := (*jsonrpc.Error)(nil); !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown tool: %v", err)
	}
	// Between calls, the session must keep its working directory and the states of read files.
	if res := callTool(t, s, "bash", map[string]any{"command": "mkdir -p sub && cd sub && pwd"}); text(t, res) != dir+"/sub\n[The session's directory is "+dir+"/sub.]" {
		t.Errorf("%q", text(t, res))
	}
	if res := callTool(t, s, "bash", map[string]any{"command": "pwd; cd .."}); text(t, res) != dir+"/sub\n" {
		t.Errorf("%q", text(t, res))
	}
	if res := callTool(t, s, "edit", map[string]any{"file_path": "notes.txt", "old_string": "two", "new_string": "2"}); res.IsError {
		t.Errorf("%v", text(t, res))
	}

	progressTest(t, s, &mu, &notes)
	askTest(t, s, u)
	if res := callTool(t, connect(t, era, transport(), nil, nil), "test_ask", nil); !res.IsError || !strings.Contains(text(t, res), "cannot ask") {
		t.Errorf("a client without a user: %v", text(t, res))
	}
	cancelTest(t, s, dir)
}

// progressTest checks that output arrives in progress notifications while the command runs. The progress numbers must
// increase.
func progressTest(t *testing.T, s *mcp.ClientSession, mu *sync.Mutex, notes *[]*mcp.ProgressNotificationParams) {
	t.Helper()
	p := &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo first; sleep 0.5; printf '\\033[31msecond\\n'"}}
	p.SetProgressToken("token")
	res, err := s.CallTool(t.Context(), p)
	if err != nil || res.IsError {
		t.Fatalf("%v %+v", err, res)
	}
	eventually(t, "both lines are reported", func() bool { // wait, because the result can arrive before the notifications are handled
		mu.Lock()
		defer mu.Unlock()
		return len(*notes) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	last := 0.0
	var said []string
	for _, n := range *notes {
		if n.ProgressToken != "token" || n.Progress <= last {
			t.Errorf("%+v after %v", n, last)
		}
		last = n.Progress
		said = append(said, n.Message)
	}
	if !slices.Equal(said, []string{"first", "[31msecond"}) {
		t.Errorf("%q", said)
	}
}

// askTest checks that the client's user can answer a permission request for a tool.
func askTest(t *testing.T, s *mcp.ClientSession, u *user) {
	t.Helper()
	for _, tc := range []struct {
		reply *mcp.ElicitResult
		ok    bool
	}{
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}, true},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": false}}, false},
		{&mcp.ElicitResult{Action: "decline"}, false},
		{&mcp.ElicitResult{Action: "cancel"}, false},
	} {
		u.mu.Lock()
		u.reply, u.asked = tc.reply, nil
		u.mu.Unlock()
		res := callTool(t, s, "test_ask", nil)
		if res.IsError == tc.ok {
			t.Errorf("%+v: %v", tc.reply, text(t, res))
		}
		if len(u.asked) != 1 || !strings.Contains(u.asked[0], "May I?") || !strings.Contains(u.asked[0], "/etc/hosts") {
			t.Errorf("%q", u.asked)
		}
	}
	// With the scope "session", the user must be asked only once.
	for n := range 2 {
		u.mu.Lock()
		u.reply, u.asked = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true, "for": "session"}}, nil
		u.mu.Unlock()
		if res := callTool(t, s, "test_danger", nil); res.IsError || len(u.asked) != 1-n {
			t.Errorf("call %d: asked %q: %s", n, u.asked, text(t, res))
		}
	}
}

// TestAskUser checks that the client's user can answer a question of the model.
func TestAskUser(t *testing.T) {
	t.Parallel()
	for _, era := range eras[1:] {
		dir := mcpDir(t)
		u := &user{}
		s := connect(t, era, &mcp.CommandTransport{Command: toolhost(t, dir, "mcp")}, u, nil)
		for _, tc := range []struct {
			args  map[string]any
			reply any
			want  string
		}{
			{map[string]any{"question": "Which?", "options": []string{"red", "green"}}, "green", "green"},
			{map[string]any{"question": "Which?", "options": []string{"red", "green", "blue"}, "multiple": true}, []any{"red", "blue"}, "red\nblue"},
			{map[string]any{"question": "Why?"}, "because", "because"},
			{map[string]any{"question": "Which?", "options": []string{"red"}, "free_text": true}, "black", "black"},
		} {
			u.mu.Lock()
			u.reply = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": tc.reply}}
			u.mu.Unlock()
			if res := callTool(t, s, "ask_user", tc.args); res.IsError || text(t, res) != tc.want {
				t.Errorf("%s: %v: %v", era, tc.args, text(t, res))
			}
		}
		u.mu.Lock()
		u.reply = &mcp.ElicitResult{Action: "decline"}
		u.mu.Unlock()
		if res := callTool(t, s, "ask_user", map[string]any{"question": "Why?"}); res.IsError || !strings.Contains(text(t, res), "declined") {
			t.Errorf("%v", text(t, res))
		}
	}
	nobody := connect(t, eras[1], &mcp.CommandTransport{Command: toolhost(t, mcpDir(t), "mcp")}, nil, nil)
	if res := callTool(t, nobody, "ask_user", map[string]any{"question": "Why?"}); !res.IsError || !strings.Contains(text(t, res), "nobody to ask") {
		t.Errorf("%v", text(t, res))
	}
}

// TestOutsideOverMCP checks that a path outside of the roots (requirement E3) causes a question if the client can ask
// its user.
func TestOutsideOverMCP(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(outside, []byte("found"), 0o600))
	for _, era := range eras[1:] {
		u := &user{}
		s := connect(t, era, &mcp.CommandTransport{Command: toolhost(t, mcpDir(t), "mcp")}, u, nil)
		nobody := connect(t, era, &mcp.CommandTransport{Command: toolhost(t, mcpDir(t), "mcp")}, nil, nil)
		for _, tc := range []struct {
			session *mcp.ClientSession
			reply   *mcp.ElicitResult
			want    string
		}{
			{s, &mcp.ElicitResult{Action: "decline"}, "the user declined"},
			{s, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}, "found"},
			{s, &mcp.ElicitResult{Action: "cancel"}, "the user declined"},
			{nobody, nil, "is outside of the roots"},
		} {
			u.mu.Lock()
			u.reply = tc.reply
			u.mu.Unlock()
			if res := callTool(t, tc.session, "read", map[string]any{"file_path": outside}); res.IsError != (tc.want != "found") || !strings.Contains(text(t, res), tc.want) {
				t.Errorf("%s: %+v: %v", era, tc.reply, text(t, res))
			}
		}
	}
}

// TestSwappedWhileAsked checks that a call reaches no other file if a link changes while a person is asked.
func TestSwappedWhileAsked(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, name := range []string{"asked", "other", "denied"} {
		must(t, os.WriteFile(filepath.Join(outside, name), []byte(name+" content\n"), 0o600))
	}
	const rules = "permissions {\n  deny \"d\" { path = %q }\n  ask \"r\" { path = \"link-in\" }\n  deny \"env\" { path = \".env\" }\n}\n"
	for _, tc := range []struct {
		tool       string
		args       map[string]any
		link       string // relative to the workspace
		before, to string // targets of the link
		want       string
	}{
		{"read", map[string]any{}, "link", filepath.Join(outside, "asked"), filepath.Join(outside, "other"), "asked content"},
		{"read", map[string]any{}, "link", filepath.Join(outside, "asked"), filepath.Join(outside, "denied"), "asked content"},
		{"write", map[string]any{"content": "new"}, "link", filepath.Join(outside, "fresh"), filepath.Join(outside, "other"), "Created"},
		{"read", map[string]any{}, "link-in", "fine.txt", ".env", "denied by"},
	} {
		dir := mcpDir(t)
		must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, rules, filepath.Join(outside, "denied")), 0o600))
		for _, name := range []string{"fine.txt", ".env"} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(name+" content\n"), 0o600))
		}
		link := filepath.Join(dir, tc.link)
		must(t, os.Symlink(tc.before, link))
		u := &user{reply: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}, meanwhile: func() {
			_ = os.Remove(link)
			_ = os.Symlink(tc.to, link)
		}}
		s := connect(t, eras[1], &mcp.CommandTransport{Command: toolhost(t, dir, "mcp")}, u, nil)
		args := map[string]any{"file_path": link}
		for k, v := range tc.args {
			args[k] = v
		}
		res := callTool(t, s, tc.tool, args)
		if got := text(t, res); !strings.Contains(got, tc.want) || len(u.asked) != 1 {
			t.Errorf("%s of %s, then %s: asked %q, %s", tc.tool, tc.before, tc.to, u.asked, got)
		}
		b, err := os.ReadFile(filepath.Join(outside, "other"))
		must(t, err)
		if string(b) != "other content\n" {
			t.Errorf("the other file has %q", b)
		}
	}
}

// cancelTest checks that the cancellation of a call ends the call's processes. The next call must work.
func cancelTest(t *testing.T, s *mcp.ClientSession, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(dir, "started")
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "touch started; sleep 60; touch never"}})
		done <- err
	}()
	eventually(t, "the command starts", func() bool { _, err := os.Stat(started); return err == nil })
	cancel()
	if err := <-done; err == nil {
		t.Error("the canceled call has a result")
	}
	eventually(t, "the command ends", func() bool { return !running(t, "sleep", dir) })
	if res := callTool(t, s, "bash", map[string]any{"command": "echo on"}); text(t, res) != "on\n" {
		t.Errorf("%q", text(t, res))
	}
}

// The function "running" reports whether a program with the given name runs in a working directory under dir.
func running(t *testing.T, name, dir string) bool {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		comm, _ := os.ReadFile(filepath.Join(p, "comm"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if strings.TrimSpace(string(comm)) == name && strings.HasPrefix(cwd, dir) {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		began := time.Now()
		if done() {
			return
		}
		if began.After(end) {
			t.Fatalf("%s: not in a minute", what)
		}
		// Some conditions start a program. If a condition is slow, wait longer before the next check, because the
		// checks need the same processors as the work that the test waits for.
		time.Sleep(max(20*time.Millisecond, 3*time.Since(began)))
	}
}

// TestMCPSingle tests the options --single and --tools.
func TestMCPSingle(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	s := connect(t, eras[1], &mcp.CommandTransport{Command: toolhost(t, dir, "mcp", "--single")}, nil, nil)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "bash" || !strings.Contains(list.Tools[0].Description, "field:test") {
		t.Fatalf("%+v %v", list, err)
	}
	for command, want := range map[string]string{"read notes.txt --limit 1": "one\n", "field:test echo hi --times 2": "hihi", "echo $((1 + 2)) | cat": "3\n"} {
		if res := callTool(t, s, "bash", map[string]any{"command": command}); res.IsError || strings.TrimSpace(text(t, res)) != strings.TrimSpace(want) {
			t.Errorf("%s: %q", command, text(t, res))
		}
	}
	if res := callTool(t, s, "bash", map[string]any{"cmd": "true"}); !res.IsError || !strings.Contains(text(t, res), "no command") {
		t.Errorf("%v", text(t, res))
	}
	few := connect(t, eras[1], &mcp.CommandTransport{Command: toolhost(t, dir, "mcp", "--tools", "read,test:echo")}, nil, nil)
	if list, err = few.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	if out, err := toolhost(t, dir, "mcp", "--tools", "reed").Output(); err == nil || len(out) > 0 {
		t.Errorf("an unknown tool: %s %v", out, err)
	}
}

// TestMCPClientGone checks that no processes remain if a client disconnects during a call or during a question.
func TestMCPClientGone(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	for _, command := range []string{"touch started; sleep 61", "field:test ask"} {
		c := toolhost(t, dir, "mcp", "--single")
		in, lines := piped(t, c)
		send := func(method string, id int, params string) {
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		}
		send("initialize", 1, `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}`)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		send("tools/call", 2, fmt.Sprintf(`{"name":"bash","arguments":{"command":%q}}`, command))
		if strings.Contains(command, "ask") {
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "elicitation/create") {
				t.Fatalf("%s %v", line, err)
			}
		} else {
			eventually(t, "the command starts", func() bool { return running(t, "sleep", dir) })
		}
		_ = in.Close()
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
		case <-time.After(30 * time.Second):
			_ = c.Process.Kill()
			t.Fatalf("%s: the server does not end", command)
		}
		if running(t, "sleep", dir) {
			t.Errorf("%s: the command still runs", command)
		}
	}
}
