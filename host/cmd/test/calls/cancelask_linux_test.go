package calls

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// cancelConfig makes calls wait for a person.
const cancelConfig = `
permissions { policy = "careful" }
principal "alice" {}
principal "root" { role = "administrator" }
`

// asking is a server in careful mode. Its calls wait for an approver.
type asking struct {
	*hosttest.Principals
	alice, root, boss *hosttest.Client
}

// asked is a call that waits for a person. The functions are those of its caller.
type asked struct {
	// cancel ends the call. It returns when the cancellation is sent.
	cancel func()
	// end returns what the caller got when the call had ended.
	end func() string
	// next runs the next call of the session and returns its output. It is nil if the session ended with the call.
	next func(command string) string
}

// post begins a request of alice over HTTP.
func (a *asking) post(path, session, body string, headers ...string) asked {
	ctx, cancel := context.WithCancel(a.T.Context())
	got := make(chan string, 1)
	go func() { got <- a.send(ctx, path, body, headers...) }()
	return asked{cancel, func() string { return <-got }, a.runNext(session)}
}

// send sends a request of alice over HTTP, and returns the body of the answer or the error of the connection.
func (a *asking) send(ctx context.Context, path, body string, headers ...string) string {
	_, text, err := a.alice.Try(ctx, "POST", path, body, append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, headers...)...)
	if err != nil {
		return err.Error()
	}
	return text
}

// runNext returns a function that runs a command of alice in a session.
func (a *asking) runNext(session string) func(string) string {
	return func(command string) string {
		return a.alice.Output(fmt.Sprintf(`{"command":%q,"session":%q}`, command, session))
	}
}

// toolCall returns the message with which a client of MCP calls bash. Clients without a session describe themselves in
// each message.
func toolCall(session, command string, stateless bool) string {
	meta := map[string]any{"toolhost.dev/session": session}
	if stateless {
		meta[mcp.MetaKeyProtocolVersion], meta[mcp.MetaKeyClientInfo] = hosttest.Eras[2], map[string]any{"name": "raw", "version": "1"}
		meta[mcp.MetaKeyClientCapabilities] = map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	}
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{ // these values can always be encoded
		"name": "bash", "arguments": map[string]any{"command": command}, "_meta": meta,
	}})
	return string(b)
}

// statelessHeaders are those of a call without a session.
var statelessHeaders = []string{"Mcp-Protocol-Version", hosttest.Eras[2], "Mcp-Method", "tools/call", "Mcp-Name", "bash"}

// overSession begins a call of a client of MCP with a session.
func overSession(t *testing.T, s *mcp.ClientSession, command string) asked {
	ctx, cancel := context.WithCancel(t.Context())
	call := func(ctx context.Context, command string) string {
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": command}})
		if err != nil {
			return err.Error()
		}
		return hosttest.Text(t, res)
	}
	got := make(chan string, 1)
	go func() { got <- call(ctx, command) }()
	return asked{cancel, func() string { return <-got }, func(command string) string { return call(t.Context(), command) }}
}

// http returns the transport of a client of alice.
func (a *asking) http() mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: a.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(a.alice.Token)}}
}

// rawSession begins a session of MCP over HTTP, whose requests the test sends. It returns the headers of the session.
func (a *asking) rawSession() []string {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	req, err := http.NewRequestWithContext(a.T.Context(), http.MethodPost, a.Base+"/mcp", strings.NewReader(hello))
	hosttest.Must(a.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+a.alice.Token)
	res, err := http.DefaultClient.Do(req)
	hosttest.Must(a.T, err)
	hosttest.Must(a.T, res.Body.Close())
	headers := []string{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", hosttest.Eras[1]}
	a.send(a.T.Context(), "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	return headers
}

// lines begins a call in a batch. The function "cancel" gets a function that writes a line, and one that ends the
// connection.
func (a *asking) lines(session, command string, cancel func(write func(string), hangUp func())) asked {
	ctx, cancelRequest := context.WithCancel(a.T.Context())
	in, out := io.Pipe()
	hangUp := func() {
		cancelRequest()
		_ = out.CloseWithError(context.Canceled) // the transport waits for the end of the body
	}
	write := func(line string) { _, _ = io.WriteString(out, line+"\n") } // an error also ends the answers
	got := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Base+"/v1/batch", in)
		hosttest.Must(a.T, err)
		req.Header.Set("Authorization", "Bearer "+a.alice.Token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), `{"id":1,`) {
				_ = out.Close()
				got <- lines.Text()
				return
			}
		}
		got <- fmt.Sprint(lines.Err())
	}()
	go write(fmt.Sprintf(`{"id":1,"command":%q,"session":%q}`, command, session))
	return asked{func() { cancel(write, hangUp) }, func() string { defer hangUp(); return <-got }, a.runNext(session)}
}

// mute is a user who does not answer before the channel is closed.
func mute(until <-chan struct{}) *hosttest.User {
	return &hosttest.User{Reply: &mcp.ElicitResult{Action: "cancel"}, Meanwhile: func() { <-until }}
}

// command begins "toolhost run" at a terminal, in a session.
func (a *asking) command(session, command string) asked {
	person, program := hosttest.TerminalPair(a.T)
	c := hosttest.Toolhost(a.T, a.Dir, "--session", session, "--on-ask", "prompt", "run", command)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	hosttest.Must(a.T, c.Start())
	var mu sync.Mutex
	var shown bytes.Buffer
	go func() {
		part := make([]byte, 4096)
		for {
			n, err := person.Read(part)
			mu.Lock()
			shown.Write(part[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return shown.String()
	}
	hosttest.Wait(a.T, "the question is at the terminal", func() bool { return strings.Contains(text(), "Allow?") })
	return asked{
		func() { _, _ = person.WriteString("\x03") }, // an error also ends the program
		func() string {
			if err := c.Wait(); err == nil {
				a.T.Error("the canceled command succeeded")
			}
			return text()
		},
		func(command string) string {
			out, err := hosttest.Toolhost(a.T, a.Dir, "--session", session, "run", command).Output()
			return fmt.Sprint(string(out), err)
		},
	}
}

// canceledBy lists the ways in which a caller ends a call that waits for an answer. The text "told" is in what the
// caller gets. If "questions" is true, the questions of tools are answered in the same place as permissions.
func (a *asking) canceledBy() map[string]struct {
	told      string
	questions bool
	begin     func(t *testing.T, session, command string) asked
} {
	type way = struct {
		told      string
		questions bool
		begin     func(t *testing.T, session, command string) asked
	}
	stdio := func(t *testing.T, c *exec.Cmd, u *hosttest.User) *mcp.ClientSession {
		return hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: c}, u, nil)
	}
	return map[string]way{
		"the client of /v1/run is gone": {"context canceled", true, func(_ *testing.T, session, command string) asked {
			return a.post("/v1/run", session, fmt.Sprintf(`{"command":%q,"session":%q}`, command, session))
		}},
		"an administrator": {"root", true, func(_ *testing.T, session, command string) asked {
			c := a.post("/v1/run", session, fmt.Sprintf(`{"command":%q,"session":%q}`, command, session))
			c.cancel = func() {
				var list struct {
					Calls []struct {
						ID      int64
						Session string
					}
				}
				hosttest.Must(a.T, json.Unmarshal([]byte(a.root.Want(200, "an answer to: ", "GET", "/v1/calls", "")), &list))
				for _, one := range list.Calls {
					a.root.Want(200, "", "POST", fmt.Sprintf("/v1/calls/%d/cancel", one.ID), "")
				}
			}
			return c
		}},
		"a line of a batch": {`"kind":"canceled"`, true, func(_ *testing.T, session, command string) asked {
			return a.lines(session, command, func(write func(string), _ func()) { write(`{"id":2,"cancel":1}`) })
		}},
		"the client of a batch is gone": {"context canceled", true, func(_ *testing.T, session, command string) asked {
			return a.lines(session, command, func(_ func(string), hangUp func()) { hangUp() })
		}},
		"a client of MCP over HTTP": {"context canceled", false, func(t *testing.T, _, command string) asked {
			return overSession(t, hosttest.Connect(t, hosttest.Eras[1], a.http(), nil, nil), command)
		}},
		"a client of MCP without a session": {"context canceled", false, func(t *testing.T, _, command string) asked {
			return overSession(t, hosttest.Connect(t, hosttest.Eras[2], a.http(), nil, nil), command)
		}},
		"the connection of a session is lost": {"context canceled", false, func(_ *testing.T, session, command string) asked {
			headers := a.rawSession()
			c := a.post("/mcp", session, toolCall("", command, false), headers...)
			c.next = func(command string) string {
				return a.send(a.T.Context(), "/mcp", toolCall("", command, false), headers...)
			}
			return c
		}},
		"the connection of a stateless call is lost": {"context canceled", false, func(_ *testing.T, session, command string) asked {
			c := a.post("/mcp", session, toolCall(session, command, true), statelessHeaders...)
			c.next = func(command string) string {
				return a.send(a.T.Context(), "/mcp", toolCall(session, command, true), statelessHeaders...)
			}
			return c
		}},
		"a client of MCP over stdio": {"context canceled", false, func(t *testing.T, _, command string) asked {
			return overSession(t, stdio(t, hosttest.Toolhost(t, a.Dir, "mcp"), nil), command)
		}},
		"a client whose user is asked, too": {"context canceled", false, func(t *testing.T, _, command string) asked {
			until := make(chan struct{})
			s := stdio(t, hosttest.Toolhost(t, a.Dir, "mcp"), mute(until))
			t.Cleanup(func() { close(until) }) // before the session is closed, which waits for the user
			return overSession(t, s, command)
		}},
		"a client that closes its output": {"", false, func(t *testing.T, _, command string) asked {
			s := hosttest.LineSession(t, a.Dir)
			s.Tell("1", "bash", map[string]any{"command": command})
			return asked{s.End, func() string { return "" }, nil}
		}},
		"the end of the host": {"", false, func(t *testing.T, _, command string) asked {
			host := hosttest.Toolhost(t, a.Dir, "mcp")
			c := overSession(t, stdio(t, host, nil), command)
			c.cancel, c.next = func() { hosttest.Must(t, host.Process.Signal(os.Interrupt)) }, nil
			return c
		}},
		"Ctrl-C at the terminal": {"", false, func(_ *testing.T, session, command string) asked { return a.command(session, command) }},
	}
}

// TestCanceledAsks cancels calls that wait for a person, in each way in which a caller can. The question must disappear
// where it is listed, and a later answer must be refused with the reason. Nothing runs, no preview and no process
// remains, the log has the call as canceled, and the next call of the session runs.
func TestCanceledAsks(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, cancelConfig)
	a := &asking{p, p.As("alice"), p.As("root"), hosttest.NewClient(t, p.Base, hosttest.ApproverToken)}
	for way, front := range a.canceledBy() {
		for shape, command := range map[string]string{
			"with a preview":    "rm notes.txt",
			"during a command":  `touch began; r=$(tr x x <<< rm); "$r" notes.txt; touch went-on`,
			"before publishing": "true; git push; touch went-on",
			"a tool's question": "ask_user --question 'May I?'; touch went-on",
		} {
			if shape == "a tool's question" && !front.questions {
				continue // the client itself is asked, and not an approver
			}
			t.Run(way+", "+shape, func(t *testing.T) {
				mark := strings.ReplaceAll(t.Name(), "/", "-")
				a.canceled(t, front.begin(t, mark, command+" # "+mark), mark, front.told)
			})
		}
	}
}

// canceled cancels a call and checks what is left of it.
func (a *asking) canceled(t *testing.T, c asked, mark, told string) {
	t.Helper()
	previewed := strings.Contains(mark, "with_a_preview") // at the terminal; elsewhere, the ask shows it
	ids := func() (out []string) {
		var list []struct {
			ID         string
			Permission struct{ Metadata map[string]any }
		}
		hosttest.Must(t, json.Unmarshal([]byte(a.boss.Want(200, "", "GET", "/v1/asks", "")), &list))
		for _, one := range list {
			out, previewed = append(out, one.ID), one.Permission.Metadata["diff"] != nil
		}
		return out
	}
	atTerminal := strings.Contains(t.Name(), "terminal")
	var ask string
	if !atTerminal {
		hosttest.Wait(t, "the call asks", func() bool {
			if open := ids(); len(open) == 1 {
				ask = open[0]
			}
			return ask != ""
		})
	}
	c.cancel()
	if got := c.end(); !strings.Contains(got, told) {
		t.Errorf("the caller got %s, want %q", got, told)
	}
	hosttest.Wait(t, "the question is gone", func() bool { return len(ids()) == 0 })
	hosttest.Wait(t, "the call is gone", func() bool {
		_, body := a.root.Do("GET", "/v1/calls", "")
		return strings.Contains(body, `"total":0`)
	})
	if !atTerminal {
		a.boss.Want(404, "or its call was canceled", "POST", "/v1/asks/"+ask, `{"outcome":"accepted"}`)
	}
	if _, err := os.Stat(filepath.Join(a.Dir, "notes.txt")); err != nil {
		t.Errorf("the command ran: %v", err)
	}
	if err := os.Remove(filepath.Join(a.Dir, "went-on")); err == nil {
		t.Error("the command went on")
	}
	hosttest.Wait(t, "the preview is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(a.Dir+".state", "branches", "preview-*"))
		return err == nil && len(left) == 0
	})
	hosttest.Wait(t, "the processes of the call are gone", func() bool {
		for _, one := range hosttest.Descendants() {
			if one.Name() == "rm" || one.Name() == "git" {
				return false
			}
		}
		return true
	})
	a.logged(t, mark, previewed)
	if c.next == nil {
		return
	}
	if got := c.next("echo the next"); !strings.Contains(got, "the next") {
		t.Errorf("the next call of the session: %s", got)
	}
}

// logged checks that the audit log has the call with a mark as canceled, and tells whether it ran in a preview.
func (a *asking) logged(t *testing.T, mark string, previewed bool) {
	t.Helper()
	var entries []struct {
		Arguments json.RawMessage
		Outcome   string
		Decision  string
		Error     string
	}
	hosttest.Wait(t, "the log has the call", func() bool {
		entries = nil
		hosttest.Must(t, json.Unmarshal([]byte(a.root.Want(200, "", "GET", "/v1/log?tool=bash&limit=20", "")), &entries))
		for _, e := range entries {
			if strings.Contains(string(e.Arguments), mark+`"`) {
				if e.Outcome != "canceled" {
					t.Errorf("the log has %s %s: %s", e.Outcome, e.Decision, e.Error)
				}
				if previewed != strings.Contains(e.Error, "ran on a copy") || previewed && strings.Contains(e.Error, "Nothing was run") {
					t.Errorf("ran in a preview: %t; the log has: %s", previewed, e.Error)
				}
				return true
			}
		}
		return false
	})
}

// TestStoppedAsks stops a server while a call waits for a person. The server does not wait for the answer: a call that
// waits for its permission ends and tells so, and a command that runs goes on without the permission.
func TestStoppedAsks(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	for shape, tc := range map[string]struct{ command, want string }{
		"with a preview":    {"rm notes.txt", `because the host was stopped while it ran\b.* ran on a copy of the files`},
		"during a command":  {`r=$(tr x x <<< rm); "$r" notes.txt; echo the rest`, `nobody answered, because the host was stopped.*the rest\b`},
		"before publishing": {"true; git push", `because the host was stopped while it waited for .*Nothing was run`},
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MCPDir(t)
			file := filepath.Join(dir, "toolhost.hcl")
			b, err := os.ReadFile(file)
			hosttest.Must(t, err)
			hosttest.Must(t, os.WriteFile(file, append(b, cancelConfig+"principal \"boss\" { role = \"approver\" }\nhost { shutdown_timeout = \"24h\" }\n"...), 0o600))
			s := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
			as := (&hosttest.Principals{T: t, Dir: dir, Base: s.Base}).As
			alice, boss, got := as("alice"), as("boss"), make(chan string, 1)
			go func() {
				_, body := alice.Do("POST", "/v1/run", fmt.Sprintf(`{"command":%q}`, tc.command))
				got <- body
			}()
			hosttest.Wait(t, "the call asks", func() bool { return strings.Contains(boss.Want(200, "", "GET", "/v1/asks", ""), `"id"`) })
			hosttest.Must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
			if body := <-got; !regexp.MustCompile(tc.want).MatchString(body) {
				t.Errorf("%s\nwant %s", body, tc.want)
			}
			s.WantEnd(t)
			if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
				t.Error(err)
			}
		})
	}
}
