package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTokens checks the lifetime of a token. A running server must accept the token from its creation until its
// revocation.
func TestTokens(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, bob := p.As("alice"), p.As("bob")
	alice.Want(200, `"output":"hi\n"`, "POST", "/v1/run", `{"command":"echo hi"}`)
	for _, wrong := range []string{"", "x", alice.Token + "x", alice.Token[:len(alice.Token)-1], strings.ToUpper(alice.Token)} {
		hosttest.NewClient(t, p.Base, wrong).Want(401, "Authorization: Bearer TOKEN", "POST", "/v1/run", `{"command":"touch owned"}`)
	}
	hosttest.NewClient(t, p.Base, "").Want(401, "", "POST", "/v1/run?access_token="+alice.Token, `{"command":"touch owned"}`)
	stored, err := os.ReadFile(filepath.Join(p.Dir+".state", "tokens.json"))
	hosttest.Must(t, err)
	if bytes.Contains(stored, []byte(alice.Token)) {
		t.Error("the store contains a token")
	}
	out, err := hosttest.Toolhost(t, p.Dir, "token", "list").Output()
	hosttest.Must(t, err)
	if text := string(out); !strings.Contains(text, "alice") || !strings.Contains(text, "bob") || strings.Contains(text, alice.Token) {
		t.Error(text)
	}
	if out, err := hosttest.Toolhost(t, p.Dir, "token", "revoke", "alice").Output(); err != nil || !strings.Contains(string(out), "of principal alice") {
		t.Errorf("%s %v", out, err)
	}
	alice.Want(401, "", "POST", "/v1/run", `{"command":"touch owned"}`)
	bob.Want(200, "hi", "POST", "/v1/run", `{"command":"echo hi"}`)
	short := p.As("alice", "--expires", "1s")
	hosttest.Wait(t, "the token expires", func() bool { code, _ := short.Do("GET", "/v1/asks", ""); return code == 401 })
	for _, bad := range [][]string{{"nobody"}, {"alice", "--role", "caller"}, {"x", "--role", "king"}, {"x", "--in", "/"}, {"anonymous", "--role", "caller"}, {"Ä", "--role", "caller"}} {
		c := hosttest.Toolhost(t, p.Dir, append([]string{"token", "create"}, bad...)...)
		c.Stderr = nil
		if out, err := c.Output(); err == nil {
			t.Errorf("%q: %s", bad, out)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "owned")); err == nil {
		t.Error("a refused request ran")
	}
}

// TestRights checks the rights, tools, workspaces and limits of principals.
func TestRights(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	reader, viewer, boss := p.As("reader"), p.As("viewer"), p.As("boss")
	reader.Want(200, "one", "POST", "/v1/run", `{"command":"read notes.txt"}`)
	reader.Want(200, "hi", "POST", "/v1/run", `{"command":"field:test echo hi"}`)
	for _, command := range []string{"touch owned", "write owned --content x", "bash --help", "help", "history"} {
		out := reader.Output(fmt.Sprintf(`{"command":%q}`, command))
		if strings.Contains(command, "owned") && !strings.Contains(out, "may not call") {
			t.Errorf("%s: %s", command, out)
		}
	}
	if list := reader.Want(200, `"read"`, "GET", "/v1/tools", ""); strings.Contains(list, `"full_name":"bash"`) {
		t.Error("a tool that must not be called is listed")
	}
	reader.Want(403, "needs the right log", "GET", "/v1/status", "")
	reader.Want(403, "needs the right log", "GET", "/metrics", "")
	viewer.Want(200, "workspace", "GET", "/v1/status", "")
	for _, c := range []*hosttest.Client{viewer, boss} {
		c.Want(403, "needs the right call", "POST", "/v1/run", `{"command":"touch owned"}`)
		c.Want(403, "needs the right call", "POST", "/v1/batch", `{"id":1,"command":"touch owned"}`)
		c.Want(403, "needs the right call", "POST", "/mcp", `{}`)
	}
	viewer.Want(403, "needs the right", "POST", "/v1/asks/x", `{"outcome":"accepted"}`)

	// The answer about a forbidden workspace must not reveal whether the directory exists.
	x, y := filepath.Join(p.More, "x"), filepath.Join(p.More, "y")
	in := func(dir string) string { return fmt.Sprintf(`{"command":"pwd","workspace":%q}`, dir) }
	elsewhere, each := p.As("elsewhere"), p.As("each")
	if got := elsewhere.Output(`{"command":"pwd"}`); got != x+"\n" {
		t.Errorf("the only workspace is not the default: %s", got)
	}
	for _, dir := range []string{"/etc", "/nonexistent", p.More, y, p.Dir, filepath.Join(x, ".."), "relative"} {
		body := elsewhere.Want(403, `"kind":"permission_denied","code":1003,`, "POST", "/v1/run", in(dir))
		if !strings.Contains(body, "not allowed to work in "+dir+". Ask") || !strings.Contains(body, `"data":{"reason":"workspace"}`) {
			t.Error(body)
		}
	}
	hosttest.Must(t, os.Symlink("/etc", filepath.Join(p.More, "link")))
	each.Want(200, x, "POST", "/v1/run", in(x))
	each.Want(200, y, "POST", "/v1/run", in(y))
	for _, dir := range []string{p.More, filepath.Join(p.More, "link"), filepath.Join(x, "deeper"), p.Dir} {
		_ = os.Mkdir(filepath.Join(x, "deeper"), 0o700)
		each.Want(403, "not allowed to work in", "POST", "/v1/run", in(dir))
	}
	reader.Want(403, "not allowed to work in", "POST", "/v1/run", in(x))

	// Check the limits of a principal.
	busy := p.As("busy")
	busy.Want(200, "hi", "POST", "/v1/run", `{"session":"1","command":"echo hi"}`)
	busy.Want(200, "hi", "POST", "/v1/run", `{"session":"2","command":"echo hi"}`)
	busy.Want(200, "the output files together may have 1048576 bytes", "POST", "/v1/run", `{"session":"2","command":"seq 1000000"}`)
	busy.Want(200, "used 2 sessions", "POST", "/v1/run", `{"session":"3","command":"echo hi"}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		busy.Do("POST", "/v1/run", `{"session":"1","command":"touch started; while [ ! -e stop ]; do sleep .1; done"}`)
	}()
	hosttest.Wait(t, "the call runs", func() bool { _, err := os.Stat(filepath.Join(p.Dir, "started")); return err == nil })
	busy.Want(200, "already has 1 calls", "POST", "/v1/run", `{"session":"2","command":"echo hi"}`)
	hosttest.Must(t, os.WriteFile(filepath.Join(p.Dir, "stop"), nil, 0o600))
	<-done
	busy.Want(200, `"output":"hi\n"`, "POST", "/v1/run", `{"session":"2","command":"echo hi"}`)
	if _, err := os.Stat(filepath.Join(p.Dir, "owned")); err == nil {
		t.Error("a refused request ran")
	}
}

// TestPrincipalsAreSeparate checks two principals with the same workspace and the same session ids. They must not share
// directories, variables, processes, outputs, file states, edits or remembered answers.
func TestPrincipalsAreSeparate(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, bob := p.As("alice"), p.As("bob")
	hosttest.Must(t, os.Mkdir(filepath.Join(p.Dir, "deep"), 0o700))
	alice.Output(`{"session":"s","command":"export LEAK=secret-of-alice; cd deep; sleep 300 & echo"}`)
	if got := bob.Output(`{"session":"s","command":"pwd; echo [$LEAK]"}`); got != p.Dir+"\n[]\n" {
		t.Errorf("bob sees the session of alice: %s", got)
	}
	if got := bob.Output(`{"session":"s","command":"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -e '[s]ecret-of-alice' -e '^300$'; echo end"}`); got != "end\n" {
		t.Errorf("bob sees processes of alice: %s", got)
	}
	if got := bob.Output(`{"session":"s","command":"job list"}`); strings.Contains(got, "sleep") {
		t.Errorf("bob sees jobs of alice: %s", got)
	}
	var spilled struct {
		Data struct {
			SpillPath string `json:"spill_path"`
		}
	}
	hosttest.Must(t, json.Unmarshal([]byte(alice.Want(200, "", "POST", "/v1/run", `{"command":"seq 100000"}`)), &spilled))
	if path := spilled.Data.SpillPath; path == "" {
		t.Error("the long output was not stored in a file")
	} else {
		for c, want := range map[*hosttest.Client]bool{alice: true, bob: false} {
			for _, command := range []string{"tail -n 1 " + path, "read " + path + " --offset 99999"} {
				if got := c.Output(fmt.Sprintf(`{"command":%q}`, command)); strings.Contains(got, "100000") != want {
					t.Errorf("%s: %s", command, got)
				}
			}
		}
	}
	alice.Output(`{"session":"s","command":"cd .. && write made.txt --content one"}`)
	if got := bob.Output(`{"session":"s","command":"undo"}`); strings.Contains(got, "made.txt") {
		t.Errorf("bob undoes what alice wrote: %s", got)
	}
	if got := bob.Output(`{"session":"s","command":"write made.txt --content two"}`); !strings.Contains(got, "not been read") && !strings.Contains(got, "read it") && !strings.Contains(got, "Read") {
		t.Errorf("bob uses the file state of alice: %s", got)
	}
	if got := bob.Output(`{"session":"s","command":"history"}`); strings.Contains(got, "LEAK") {
		t.Errorf("bob sees the history of alice: %s", got)
	}
	const temporary = `{"session":"s","command":"cat /tmp/of-alice $TMPDIR/of-alice 2>/dev/null; echo end"}`
	alice.Output(`{"session":"s","command":"echo secret-of-alice > /tmp/of-alice"}`)
	if got := alice.Output(temporary); !strings.HasPrefix(got, "secret-of-alice\n") {
		t.Errorf("alice does not see her temporary file: %s", got)
	}
	if got := bob.Output(temporary); got != "end\n" {
		t.Errorf("bob sees a temporary file of alice: %s", got)
	}
	for _, path := range []string{"/v1/status", "/v1/stats", "/metrics"} { // these pages show the calls of all principals
		bob.Want(http.StatusForbidden, "", "GET", path, "")
	}
	// The local user must not reach another principal's session through the name of the session.
	out, err := hosttest.Toolhost(t, p.Dir, "--session", fmt.Sprintf("principal:alice:%d:%s:s", len(p.Dir), p.Dir), "run", "echo $LEAK").Output()
	if err == nil || strings.Contains(string(out), "secret") {
		t.Errorf("the local user got a session of alice by its key: %s", out)
	}
}

// TestCallsAreSeen checks which calls a principal can see. A principal sees its own calls, an approver sees the calls
// of the principals for whom it answers, and an administrator sees all calls.
func TestCallsAreSeen(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, dev, boss, root, viewer := p.As("alice"), p.As("dev"), p.As("boss"), p.As("root"), p.As("viewer")
	dev.Want(200, "hi", "POST", "/v1/run", `{"session":"of-dev","command":"echo hi"}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		alice.Do("POST", "/v1/run", `{"session":"of-alice","command":"touch started; while [ ! -e stop ]; do sleep .1; done # secret-of-alice"}`)
	}()
	hosttest.Wait(t, "the call runs", func() bool { _, err := os.Stat(filepath.Join(p.Dir, "started")); return err == nil })
	for name, who := range map[string]struct {
		c          *hosttest.Client
		alice, dev bool
	}{"dev": {dev, false, true}, "boss": {boss, true, false}, "viewer": {viewer, false, false}, "root": {root, true, true}} {
		_, calls := who.c.Do("GET", "/v1/calls", "")
		if got := strings.Contains(calls, "secret-of-alice"); got != who.alice {
			t.Errorf("%s sees the call of alice: %v in %s", name, got, calls)
		}
		if _, status := who.c.Do("GET", "/v1/status", ""); strings.Contains(status, "of-alice") != who.alice || strings.Contains(status, "of-dev") != who.dev {
			t.Errorf("%s sees in the status: %s", name, status)
		}
		hosttest.Wait(t, name+" sees the call of dev in the log", func() bool {
			_, log := who.c.Do("GET", "/v1/log", "")
			return strings.Contains(log, "of-dev") == who.dev
		})
	}
	boss.Want(403, "needs the right administer", "POST", "/v1/calls/1/cancel", "")
	hosttest.Must(t, os.WriteFile(filepath.Join(p.Dir, "stop"), nil, 0o600))
	<-done
	hosttest.Wait(t, "boss sees the ended call", func() bool {
		_, log := boss.Do("GET", "/v1/log", "")
		return strings.Contains(log, "secret-of-alice") && !strings.Contains(log, "of-dev")
	})
	for name, c := range map[string]*hosttest.Client{"dev": dev, "viewer": viewer} {
		for _, query := range []string{"", "?principal=alice", "?text=secret-of-alice", "?format=csv"} {
			if _, log := c.Do("GET", "/v1/log"+query, ""); strings.Contains(log, "secret-of-alice") {
				t.Errorf("%s sees the calls of alice with %q", name, query)
			}
		}
	}
}

// TestNoCallCrosses runs 100 concurrent calls of two principals with the same session ids over each frontend. No call
// may get the output of the other principal.
func TestNoCallCrosses(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	clients := map[string]*hosttest.Client{"alice": p.As("alice"), "bob": p.As("bob")}
	var mu sync.Mutex
	crossed, calls := 0, 0
	judge := func(name, got string) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; !strings.Contains(got, "of-"+name) || strings.Contains(got, "of-alice") && strings.Contains(got, "of-bob") {
			crossed++
			t.Errorf("%s got %q", name, got)
		}
	}
	var wg sync.WaitGroup
	for name, c := range clients {
		hosttest.Must(t, os.MkdirAll(filepath.Join(p.Dir, "of-"+name), 0o700))
		wg.Go(func() {
			c.Output(fmt.Sprintf(`{"session":"s","command":"cd of-%s; export WHO=of-%[1]s"}`, name))
			for range 15 {
				judge(name, c.Output(`{"session":"s","command":"pwd; echo $WHO"}`))
			}
			lines := strings.Repeat(`{"session":"s","command":"pwd; echo $WHO"}`+"\n", 15)
			_, body := c.Do("POST", "/v1/batch?ordered=1", lines)
			for line := range strings.Lines(body) {
				judge(name, line)
			}
		})
		for _, era := range []string{hosttest.Eras[0], hosttest.Eras[2]} {
			wg.Go(func() {
				s := hosttest.Connect(t, era, &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(c.Token)}}, nil, nil)
				hosttest.CallTool(t, s, "bash", map[string]any{"command": fmt.Sprintf("cd of-%s; export WHO=of-%[1]s", name)})
				for range 10 {
					judge(name, hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": "pwd; echo $WHO"})))
				}
			})
		}
	}
	wg.Wait()
	if crossed > 0 || calls != 100 {
		t.Errorf("%d of %d calls got the output of the other principal", crossed, calls)
	}
}

// TestMCPPrincipals checks that an MCP connection belongs to the principal that opened it. It also checks that clients
// without a connection have separate sessions if they send their session handles back.
func TestMCPPrincipals(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, bob := p.As("alice"), p.As("bob")
	s := hosttest.Connect(t, hosttest.Eras[1], &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(alice.Token)}}, nil, nil)
	hosttest.CallTool(t, s, "bash", map[string]any{"command": "export LEAK=secret"})
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo $LEAK"}}}`
	headers := func(id string) []string {
		return []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Session-Id", id, "Mcp-Protocol-Version", hosttest.Eras[1]}
	}
	_, unknown := bob.Do("POST", "/mcp", call, headers("unknown")...)
	code, stolen := bob.Do("POST", "/mcp", call, headers(s.ID())...)
	if code != 404 || stolen != unknown {
		t.Errorf("another principal's connection: %d %q, an unknown one: %q", code, stolen, unknown)
	}
	alice.Want(200, "secret", "POST", "/mcp", call, headers(s.ID())...)
	list, err := hosttest.Connect(t, hosttest.Eras[1], &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(p.As("reader").Token)}}, nil, nil).ListTools(t.Context(), nil)
	hosttest.Must(t, err)
	for _, tool := range list.Tools {
		if tool.Name == "bash" || tool.Name == "edit" {
			t.Errorf("%s is listed", tool.Name)
		}
	}

	// Connect two clients of the same principal. Both clients send their session handles back.
	hosttest.Must(t, os.Mkdir(filepath.Join(p.Dir, "deep"), 0o700))
	var sessions []*mcp.ClientSession
	for range 2 {
		sessions = append(sessions, hosttest.Connect(t, hosttest.Eras[2], &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(alice.Token)}}, nil, nil))
	}
	handles := make([]any, 2)
	run := func(i int, command string) string {
		t.Helper()
		params := &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": command}}
		if handles[i] != nil {
			params.Meta = mcp.Meta{"toolhost.dev/session": handles[i]}
		}
		res, err := sessions[i].CallTool(t.Context(), params)
		hosttest.Must(t, err)
		if h := res.Meta["toolhost.dev/session"]; h != nil {
			handles[i] = h
		}
		return hosttest.Text(t, res)
	}
	run(0, "export KEPT=kept")
	run(1, "true")
	if handles[0] == nil || handles[1] == nil || handles[0] == handles[1] {
		t.Fatalf("handles: %v", handles)
	}
	if got := run(0, "echo $KEPT; export LEAK=secret; cd deep"); !strings.HasPrefix(got, "kept\n[The session's directory is ") {
		t.Errorf("the session does not continue: %q", got)
	}
	if got := run(1, "pwd; echo [$LEAK]"); got != p.Dir+"\n[]\n" {
		t.Errorf("a client sees the session of another one: %q", got)
	}
	if got := run(0, "pwd; echo [$LEAK]"); got != p.Dir+"/deep\n[secret]\n" {
		t.Errorf("the session is lost: %q", got)
	}
}

// TestAnswers checks who can answer a permission request. The audit log must contain the caller and the principal that
// answered.
func TestAnswers(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, bob, boss, root := p.As("alice"), p.As("bob"), p.As("boss"), p.As("root")
	type ask struct{ ID, Principal, Digest string }
	begin := func(c *hosttest.Client) (ask, chan string) {
		t.Helper()
		result := make(chan string, 1)
		go func() {
			_, body := c.Do("POST", "/v1/run", `{"command":"field:test ask"}`)
			result <- body
		}()
		var list []ask
		hosttest.Wait(t, "the ask is in the list", func() bool {
			_, body := root.Do("GET", "/v1/asks", "")
			return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
		})
		return list[0], result
	}
	a, result := begin(alice)
	if a.Principal != "alice" || !strings.HasPrefix(a.Digest, "sha256:") {
		t.Errorf("%+v", a)
	}
	path, yes := "/v1/asks/"+a.ID, `{"outcome":"accepted"}`
	alice.Want(403, "another principal must answer", "POST", path, yes)
	bob.Want(404, "no question", "POST", path, yes)
	bob.Want(200, "[]", "GET", "/v1/asks", "")
	boss.Want(409, "another content", "POST", path, `{"outcome":"accepted","digest":"sha256:0"}`)
	boss.Want(403, "needs the right administer", "POST", path, `{"outcome":"accepted","values":["always"]}`)
	boss.Want(200, "accepted", "POST", path, fmt.Sprintf(`{"outcome":"accepted","digest":%q}`, a.Digest))
	if body := <-result; !strings.Contains(body, "thank you") {
		t.Error(body)
	}
	var entries []struct{ Principal, Tool, Answered string }
	hosttest.Wait(t, "the call is in the log", func() bool {
		out, err := hosttest.Toolhost(t, p.Dir, "log", "--principal", "alice", "--json").Output()
		hosttest.Must(t, err)
		hosttest.Must(t, json.Unmarshal(out, &entries))
		return len(entries) > 0
	})
	if len(entries) != 1 || entries[0].Principal != "alice" || entries[0].Tool != "test:ask" {
		t.Errorf("%+v", entries)
	}
	b, result := begin(bob)
	boss.Want(404, "is open", "POST", "/v1/asks/"+b.ID, yes) // boss does not supervise bob
	root.Want(200, "declined", "POST", "/v1/asks/"+b.ID, `{"outcome":"declined"}`)
	if body := <-result; strings.Contains(body, "thank you") {
		t.Error(body)
	}
	// An MCP client must not answer the permission requests of its own calls.
	u := &hosttest.User{Reply: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}}
	s := hosttest.Connect(t, hosttest.Eras[1], &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(alice.Token)}}, u, nil)
	done := make(chan *mcp.CallToolResult, 1)
	go func() {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_ask"})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	var list []ask
	hosttest.Wait(t, "the ask is in the list", func() bool {
		_, body := boss.Do("GET", "/v1/asks", "")
		return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
	})
	boss.Want(200, "declined", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"declined"}`)
	if res := <-done; res == nil || strings.Contains(hosttest.Text(t, res), "thank you") || len(u.Asked) > 0 {
		t.Errorf("%+v, asked %q", res, u.Asked)
	}
	// A permanent answer must apply to only one principal.
	a, result = begin(alice)
	root.Want(200, "accepted", "POST", "/v1/asks/"+a.ID, `{"outcome":"accepted","values":["always"]}`)
	<-result
	alice.Want(200, "thank you", "POST", "/v1/run", `{"session":"other","command":"field:test ask"}`)
	b, result = begin(bob)
	root.Want(200, "declined", "POST", "/v1/asks/"+b.ID, `{"outcome":"declined"}`)
	<-result
}

// TestAnonymous checks that a client without a token can only call tools, and only in the workspace of the host.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	base, _ := hosttest.Serve(t, dir, "--no-auth")
	c := hosttest.NewClient(t, base, "")
	c.Want(200, "hi", "POST", "/v1/run", `{"command":"echo hi"}`)
	c.Want(403, "not allowed to work in", "POST", "/v1/run", `{"command":"touch owned","workspace":"/tmp"}`)
	for _, path := range []string{"/v1/status", "/v1/stats", "/metrics"} {
		c.Want(403, "needs the right log", "GET", path, "")
	}
	hosttest.NewClient(t, base, "guess").Want(401, "", "POST", "/v1/run", `{"command":"echo hi"}`)
}

// TestUnixSocket checks that the server identifies a client of a Unix socket by its user.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	short, err := os.MkdirTemp("", "s")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	hosttest.Must(t, os.Chmod(short, 0o755)) // other users must be able to connect
	socket := filepath.Join(short, "s")
	c := hosttest.Toolhost(t, dir, "serve", "--listen", "unix:"+socket)
	hosttest.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	hosttest.Wait(t, "the server listens", func() bool { // the file exists before the server listens
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		return err == nil && conn.Close() == nil
	})
	get := func(dial func(context.Context, string, string) (net.Conn, error)) (int, string) {
		t.Helper()
		web := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}
		res, err := web.Post("http://localhost/v1/run", "application/json", strings.NewReader(`{"command":"echo hi","workspace":`+fmt.Sprintf("%q", dir)+`}`)) //nolint:noctx // has a timeout
		hosttest.Must(t, err)
		defer res.Body.Close()
		b := new(bytes.Buffer)
		_, err = b.ReadFrom(res.Body)
		hosttest.Must(t, err)
		return res.StatusCode, b.String()
	}
	if code, body := get(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}); code != 200 || !strings.Contains(body, `"hi\n"`) {
		t.Errorf("own user: %d %s", code, body)
	}
	if os.Getuid() == 0 { // only root can connect as another user
		if code, body := get(dialAs(socket, 65534)); code != 401 {
			t.Errorf("another user: %d %s", code, body)
		}
	}
	// A command in the sandbox runs as the user of the host, but it must not get the rights of this user.
	out, err := hosttest.Toolhost(t, dir, "run", fmt.Sprintf("python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(%q); s.sendall(b\"GET /v1/status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n\"); print(s.recv(300))'", socket)).CombinedOutput()
	if bytes.Contains(out, []byte("200 OK")) {
		t.Errorf("a command in the sandbox has rights: %s %v", out, err)
	}
}
