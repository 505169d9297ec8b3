package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestMCP tests clients of each protocol revision over standard input and output and over HTTP.
func TestMCP(t *testing.T) {
	t.Parallel()
	for _, era := range hosttest.Eras {
		t.Run("stdio "+era, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			clientTest(t, era, dir, func() mcp.Transport {
				return &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}
			})
		})
		t.Run("http "+era, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			base, token := hosttest.Serve(t, dir)
			clientTest(t, era, dir, func() mcp.Transport {
				return &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}}
			})
		})
	}
}

func clientTest(t *testing.T, era, dir string, transport func() mcp.Transport) {
	var mu sync.Mutex
	var notes []*mcp.ProgressNotificationParams
	u := &hosttest.User{}
	s := hosttest.Connect(t, era, transport(), u, func(p *mcp.ProgressNotificationParams) {
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

	if res := hosttest.CallTool(t, s, "read", map[string]any{"file_path": "notes.txt"}); res.IsError || hosttest.Text(t, res) != "one\ntwo\n" {
		t.Errorf("%+v", res)
	}
	if res := hosttest.CallTool(t, s, "read", map[string]any{"file_path": "notes.txt", "limitt": 1}); !res.IsError || !strings.Contains(hosttest.Text(t, res), `did you mean "limit"`) && !strings.Contains(hosttest.Text(t, res), "Did you mean") {
		t.Errorf("%v", hosttest.Text(t, res))
	} else if meta, _ := json.Marshal(res.Meta); !bytes.Contains(meta, []byte(`"kind":"invalid_arguments"`)) {
		t.Errorf("%s", meta)
	}
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nope", Arguments: map[string]any{}})
	if e := (*jsonrpc.Error)(nil); !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown tool: %v", err)
	}
	// Between calls, the session must keep its working directory and the states of read files.
	if res := hosttest.CallTool(t, s, "bash", map[string]any{"command": "mkdir -p sub && cd sub && pwd"}); hosttest.Text(t, res) != dir+"/sub\n[The session's directory is "+dir+"/sub.]" {
		t.Errorf("%q", hosttest.Text(t, res))
	}
	if res := hosttest.CallTool(t, s, "bash", map[string]any{"command": "pwd; cd .."}); hosttest.Text(t, res) != dir+"/sub\n" {
		t.Errorf("%q", hosttest.Text(t, res))
	}
	if res := hosttest.CallTool(t, s, "edit", map[string]any{"file_path": "notes.txt", "old_string": "two", "new_string": "2"}); res.IsError {
		t.Errorf("%v", hosttest.Text(t, res))
	}

	progressTest(t, s, &mu, &notes)
	askTest(t, s, u)
	if res := hosttest.CallTool(t, hosttest.Connect(t, era, transport(), nil, nil), "test_ask", nil); !res.IsError || !strings.Contains(hosttest.Text(t, res), "cannot ask") {
		t.Errorf("a client without a user: %v", hosttest.Text(t, res))
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
	hosttest.Wait(t, "both lines are reported", func() bool { // wait, because the result can arrive before the notifications are handled
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
func askTest(t *testing.T, s *mcp.ClientSession, u *hosttest.User) {
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
		u.Mu.Lock()
		u.Reply, u.Asked = tc.reply, nil
		u.Mu.Unlock()
		res := hosttest.CallTool(t, s, "test_ask", nil)
		if res.IsError == tc.ok {
			t.Errorf("%+v: %v", tc.reply, hosttest.Text(t, res))
		}
		if len(u.Asked) != 1 || !strings.Contains(u.Asked[0], "May I?") || !strings.Contains(u.Asked[0], "/etc/hosts") {
			t.Errorf("%q", u.Asked)
		}
	}
	// With the scope "session", the user must be asked only once.
	for n := range 2 {
		u.Mu.Lock()
		u.Reply, u.Asked = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true, "for": "session"}}, nil
		u.Mu.Unlock()
		if res := hosttest.CallTool(t, s, "test_danger", nil); res.IsError || len(u.Asked) != 1-n {
			t.Errorf("call %d: asked %q: %s", n, u.Asked, hosttest.Text(t, res))
		}
	}
}

// TestAskUser checks that the client's user can answer a question of the model.
func TestAskUser(t *testing.T) {
	t.Parallel()
	for _, era := range hosttest.Eras[1:] {
		dir := hosttest.MCPDir(t)
		u := &hosttest.User{}
		s := hosttest.Connect(t, era, &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, u, nil)
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
			u.Mu.Lock()
			u.Reply = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": tc.reply}}
			u.Mu.Unlock()
			if res := hosttest.CallTool(t, s, "ask_user", tc.args); res.IsError || hosttest.Text(t, res) != tc.want {
				t.Errorf("%s: %v: %v", era, tc.args, hosttest.Text(t, res))
			}
		}
		u.Mu.Lock()
		u.Reply = &mcp.ElicitResult{Action: "decline"}
		u.Mu.Unlock()
		if res := hosttest.CallTool(t, s, "ask_user", map[string]any{"question": "Why?"}); res.IsError || !strings.Contains(hosttest.Text(t, res), "declined") {
			t.Errorf("%v", hosttest.Text(t, res))
		}
	}
	nobody := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, hosttest.MCPDir(t), "mcp")}, nil, nil)
	if res := hosttest.CallTool(t, nobody, "ask_user", map[string]any{"question": "Why?"}); !res.IsError || !strings.Contains(hosttest.Text(t, res), "nobody to ask") {
		t.Errorf("%v", hosttest.Text(t, res))
	}
}

// TestOutsideOverMCP checks that a path outside of the roots (requirement E3) causes a question if the client can ask
// its user.
func TestOutsideOverMCP(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "file")
	hosttest.Must(t, os.WriteFile(outside, []byte("found"), 0o600))
	for _, era := range hosttest.Eras[1:] {
		u := &hosttest.User{}
		s := hosttest.Connect(t, era, &mcp.CommandTransport{Command: hosttest.Toolhost(t, hosttest.MCPDir(t), "mcp")}, u, nil)
		nobody := hosttest.Connect(t, era, &mcp.CommandTransport{Command: hosttest.Toolhost(t, hosttest.MCPDir(t), "mcp")}, nil, nil)
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
			u.Mu.Lock()
			u.Reply = tc.reply
			u.Mu.Unlock()
			// A tool that a command calls asks as the direct call does.
			for name, args := range map[string]map[string]any{"read": {"file_path": outside}, "bash": {"command": "true; tool:read " + outside}} {
				if res := hosttest.CallTool(t, tc.session, name, args); res.IsError != (tc.want != "found") || !strings.Contains(hosttest.Text(t, res), tc.want) {
					t.Errorf("%s: %s: %+v: %v", era, name, tc.reply, hosttest.Text(t, res))
				}
			}
		}
	}
}

// TestSwappedWhileAsked checks that a call reaches no other file if a link changes while a person is asked.
func TestSwappedWhileAsked(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, name := range []string{"asked", "other", "denied"} {
		hosttest.Must(t, os.WriteFile(filepath.Join(outside, name), []byte(name+" content\n"), 0o600))
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
		dir := hosttest.MCPDir(t)
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, rules, filepath.Join(outside, "denied")), 0o600))
		for _, name := range []string{"fine.txt", ".env"} {
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(name+" content\n"), 0o600))
		}
		link := filepath.Join(dir, tc.link)
		hosttest.Must(t, os.Symlink(tc.before, link))
		u := &hosttest.User{Reply: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}, Meanwhile: func() {
			_ = os.Remove(link)
			_ = os.Symlink(tc.to, link)
		}}
		s := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, u, nil)
		args := map[string]any{"file_path": link}
		for k, v := range tc.args {
			args[k] = v
		}
		res := hosttest.CallTool(t, s, tc.tool, args)
		if got := hosttest.Text(t, res); !strings.Contains(got, tc.want) || len(u.Asked) != 1 {
			t.Errorf("%s of %s, then %s: asked %q, %s", tc.tool, tc.before, tc.to, u.Asked, got)
		}
		b, err := os.ReadFile(filepath.Join(outside, "other"))
		hosttest.Must(t, err)
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
	hosttest.Wait(t, "the command starts", func() bool { _, err := os.Stat(started); return err == nil })
	cancel()
	if err := <-done; err == nil {
		t.Error("the canceled call has a result")
	}
	hosttest.Wait(t, "the command ends", func() bool { return !hosttest.Running("sleep", dir) })
	if res := hosttest.CallTool(t, s, "bash", map[string]any{"command": "echo on"}); hosttest.Text(t, res) != "on\n" {
		t.Errorf("%q", hosttest.Text(t, res))
	}
}

// TestMCPSingle tests the options --single and --tools.
func TestMCPSingle(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	s := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp", "--single")}, nil, nil)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "bash" || !strings.Contains(list.Tools[0].Description, "field:test") {
		t.Fatalf("%+v %v", list, err)
	}
	for command, want := range map[string]string{"read notes.txt --limit 1": "one\n", "field:test echo hi --times 2": "hihi", "echo $((1 + 2)) | cat": "3\n"} {
		if res := hosttest.CallTool(t, s, "bash", map[string]any{"command": command}); res.IsError || strings.TrimSpace(hosttest.Text(t, res)) != strings.TrimSpace(want) {
			t.Errorf("%s: %q", command, hosttest.Text(t, res))
		}
	}
	if res := hosttest.CallTool(t, s, "bash", map[string]any{"cmd": "true"}); !res.IsError || !strings.Contains(hosttest.Text(t, res), "no command") {
		t.Errorf("%v", hosttest.Text(t, res))
	}
	few := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp", "--tools", "read,test:echo")}, nil, nil)
	if list, err = few.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	for _, args := range [][]string{{"--tools", "read,bash,test:echo"}, {"--tools", "read,bash,test:echo", "--single"}, nil} {
		s := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, append([]string{"mcp"}, args...)...)}, nil, nil)
		for command, offered := range map[string]bool{
			"read notes.txt": true, "tool:read notes.txt | cat": true, "field:test echo hi": true, "echo $(field:test echo hi)": true, "cat notes.txt": true,
			"glob '*'": false, "tool:glob '*' | cat": false, "write made --content x": false, "echo $(tool:write made --content x)": false, "field:test where": false, "x=1; field:test where": false,
		} {
			got := hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": command}))
			if refused := strings.Contains(got, "The server, which was started with --tools, does not offer "); refused == (offered || args == nil) {
				t.Errorf("%v: %s: %s", args, command, got)
			}
		}
		if made := os.Remove(filepath.Join(dir, "made")) == nil; made != (args == nil) {
			t.Errorf("%v: a file was made: %v", args, made)
		}
	}
	if out, err := hosttest.Toolhost(t, dir, "mcp", "--tools", "reed").Output(); err == nil || len(out) > 0 {
		t.Errorf("an unknown tool: %s %v", out, err)
	}
}

// TestMCPClientGone checks that no processes remain if a client disconnects during a call or during a question.
func TestMCPClientGone(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	for _, command := range []string{"touch started; sleep 61", "field:test ask"} {
		c := hosttest.Toolhost(t, dir, "mcp", "--single")
		in, lines := hosttest.Piped(t, c)
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
			hosttest.Wait(t, "the command starts", func() bool { return hosttest.Running("sleep", dir) })
		}
		_ = in.Close()
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
		case <-hosttest.Late(t):
			_ = c.Process.Kill()
			t.Fatalf("%s: the server does not end", command)
		}
		if hosttest.Running("sleep", dir) {
			t.Errorf("%s: the command still runs", command)
		}
	}
}
