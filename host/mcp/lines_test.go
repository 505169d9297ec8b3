package mcp_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/testlines"
	"toolhost.dev/host/internal/testprogram"
	"toolhost.dev/host/mcp"
)

// newHost returns a host with the test plugin.
func newHost(t *testing.T) *host.Host {
	t.Helper()
	dir := t.TempDir()
	if err := testprogram.Copy(dir, "testplugin"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(config, []byte("bundled = false\nplugin \"testplugin\" {}\nsandbox {\n  enforce = \"off\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(t.Context(), host.Options{Config: config, BundledDir: dir, Workspace: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// serve serves a client over pipes. The session ends with the test, and without an error.
func serve(t *testing.T, s *mcp.Server) (in io.Writer, out *bufio.Reader) {
	t.Helper()
	theirs, ours := io.Pipe()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.WithoutCancel(t.Context()), theirs, write) }()
	t.Cleanup(func() {
		_ = ours.Close()
		_, _ = io.Copy(io.Discard, read) // what was written after the last answer
		if err := <-ended; err != nil {
			t.Errorf("the session ended: %v", err)
		}
	})
	return ours, bufio.NewReader(read)
}

// TestRandomLines sends random lines in each revision of the protocol. Each request is answered once, and nothing else
// is.
func TestRandomLines(t *testing.T) {
	t.Parallel()
	n := 1000
	if os.Getenv("TOOLHOST_LONG") != "" {
		n = 20_000
	}
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("TOOLHOST_SEED"), "1"), 10, 64)
	h := newHost(t)
	for _, revision := range testlines.Revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			s, err := mcp.New(h, mcp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			in, out := serve(t, s)
			(&testlines.Session{T: t, Revision: revision, In: in, Out: out, Tool: "echo", Seed: seed}).Run(n)
		})
	}
}

// session returns an initialized session.
func session(t *testing.T, h *host.Host, revision string) *testlines.Session {
	t.Helper()
	s, err := mcp.New(h, mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	in, out := serve(t, s)
	l := &testlines.Session{T: t, Revision: revision, In: in, Out: out, Tool: "echo"}
	l.Begin()
	return l
}

// TestLinesAreAnswered checks the exact answers to lines that are no valid message.
func TestLinesAreAnswered(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, revision := range []string{"2025-03-26", "2025-11-25"} {
		s := session(t, h, revision)
		for line, want := range map[string]string{
			`{}`:                         `"id":null,"error":{"code":-32600,"message":"The key \"jsonrpc\" of the message is not \"2.0\"."`,
			`7`:                          `"id":null,"error":{"code":-32600,"message":"The message is not a JSON object.`,
			`{"id":3,"method":"ping"}`:   `"id":3,"error":{"code":-32600`,
			`{"jsonrpc":"2.0","id":"q"}`: `"id":"q","error":{"code":-32600,"message":"The message has no method and no result.`,
			`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                                                        `"id":null,"error":{"code":-32600,"message":"The id of the request is not a string or a number.`,
			`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                                                         `"id":1.5,"result":{}`,
			`{"jsonrpc":"2.0","id":1e0,"method":"ping"}`:                                                         `"id":1e0,"result":{}`,
			`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`:                                                    `"id":"\ud800","result":{}`,
			`{"jsonrpc":"2.0","id":123456789012345678901,"method":"ping"}`:                                       `"id":123456789012345678901,"result":{}`,
			`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`: `"id":1.5,"result":{`,
			"\ufeff" + `{"jsonrpc":"2.0","id":8,"method":"ping"}` + "\r":                                         `"id":8,"result":{}`,
			"{ \x00}":     `"id":null,"error":{"code":-32700,"message":"The line is not JSON: invalid character '\\x00'`,
			"{\x00\"\x00": "UTF-16",
			`{"jsonrpc":"2.0","id":9,"method":"x` + "\xff" + `"}`: `"id":9,"error":{"code":-32700,"message":"The message is not UTF-8`,
		} {
			fmt.Fprintf(s.In, "%s\n", line)
			got, err := s.Out.ReadString('\n')
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %q: %v, %s", revision, line, err, got)
			}
		}
		batch := map[string]string{
			"2025-03-26": `[{"jsonrpc":"2.0","id":2,"result":{}}]`,
			"2025-11-25": `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The message is a batch, and revision 2025-11-25 of the protocol has none. Send one message per line."}}`,
		}[revision]
		fmt.Fprintln(s.In, `[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]`)
		if got, err := s.Out.ReadString('\n'); err != nil || got != batch+"\n" {
			t.Errorf("%s: %v, %s", revision, err, got)
		}
	}
}

// TestIDOfRunningRequest checks that a second request with the id of a running call does not run, and that the call is
// can still be canceled. The call is a line or in a batch.
func TestIDOfRunningRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, id := range []string{`5`, `1.5`, `"a"`, `"\ud800"`} {
		nap := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"nap","arguments":{"ms":600000}}}`, id)
		ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id)
		const refused = `"id":null,"error":{"code":-32600,"message":"The id `
		for _, form := range []string{nap, "[" + nap + "]"} {
			s := session(t, h, "2025-03-26")
			fmt.Fprintln(s.In, form)
			for _, c := range []struct{ line, want string }{
				{ping, refused},
				{nap, refused},
				{"[" + ping + "]", "[{\"jsonrpc\":\"2.0\"," + refused},
				{fmt.Sprintf(`{"id":%s}`, id), `"id":null`}, // not the id of the call, which is still running
				{fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id) + "\n" + `{"jsonrpc":"2.0","id":"after","method":"ping"}`, `"id":"after","result":{}`},
			} {
				fmt.Fprintln(s.In, c.line)
				if got, err := s.Out.ReadString('\n'); err != nil || !strings.Contains(got, c.want) {
					t.Errorf("%s: %s: %v, %s", form, c.line, err, got)
				}
			}
			fmt.Fprintln(s.In, ping) // the id is free, although the canceled call may not have ended
			if got, err := s.Out.ReadString('\n'); err != nil || !strings.Contains(got, `"result":{}`) {
				t.Errorf("%s: %v, %s", form, err, got)
			}
		}
	}
}

// TestCancellationEndsTheCall checks that a canceled call ends, so that a call that must wait for it can run.
func TestCancellationEndsTheCall(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	const (
		length = 20 * time.Second
		meta   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	)
	nap := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nap","arguments":{"ms":%d},%s}}`, length.Milliseconds(), meta)
	for _, tc := range []struct{ revision, call string }{{"2025-03-26", nap}, {"2025-03-26", "[" + nap + "]"}, {"2025-11-25", nap}, {"2026-07-28", nap}} {
		s := session(t, h, tc.revision)
		began := time.Now()
		fmt.Fprintln(s.In, tc.call)
		fmt.Fprintln(s.In, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,`+meta+`}}`)
		fmt.Fprintln(s.In, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{},`+meta+`}}`) // runs alone
		got, err := s.Out.ReadString('\n')
		for err == nil && strings.Contains(got, `"id":1,`) { // the newest revision answers canceled requests
			got, err = s.Out.ReadString('\n')
		}
		if err != nil || !strings.Contains(got, `"id":2,"result":`) || strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s: %v, %s", tc.revision, tc.call, err, got)
		}
		if time.Since(began) >= length {
			t.Errorf("%s: %s: the canceled call went on", tc.revision, tc.call)
		}
	}
}

// TestIDOfSubscription checks that notifications have the id of their subscription as the client wrote it, and that
// this id cancels the subscription.
func TestIDOfSubscription(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, id := range []string{`5`, `1.50`, `"a"`, `"\ud800"`, `12345678901234567890`} {
		s := session(t, h, "2026-07-28")
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		for _, c := range []struct{ line, want string }{
			{`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`, `"io.modelcontextprotocol/subscriptionId":` + id + `}`},
			{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,` + meta + `}}`, `"id":` + id + `,`},
		} {
			fmt.Fprintln(s.In, c.line)
			if got, err := s.Out.ReadString('\n'); err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%s: %v, %s", c.line, err, got)
			}
		}
	}
}

// TestInvalidBodies checks that a body over HTTP that is no valid message is answered with 400 and an error of
// JSON-RPC.
func TestInvalidBodies(t *testing.T) {
	t.Parallel()
	s, err := mcp.New(newHost(t), mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	handler := s.Handler()
	for _, revision := range testlines.Revisions {
		for body, want := range map[string]string{
			`{}`:                       `"id":null,"error":{"code":-32600`,
			`nonsense`:                 `"id":null,"error":{"code":-32700`,
			`[]`:                       `"id":null,"error":{"code":-32600`,
			`[5]`:                      `"id":null,"error":{"code":-32600`,
			`{"id":3,"method":"ping"}`: `"id":3,"error":{"code":-32600`,
			`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                              `"id":1.5,"error":{"code":-32600,"message":"The id 1.5 is neither`,
			`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`:                 `"id":9007199254740993,"error":{"code":-32600`,
			`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`:                         `"id":"\ud800","error":{"code":-32600`,
			`{"jsonrpc":"2.0","id":4,"method":"p` + "\xff" + `"}`:                     `"id":4,"error":{"code":-32700`,
			`{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`: `"id":null,"error":{"code":-32602`,
			`{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}`:                   `"id":5,"error":{"code":-32602`,
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
			for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": revision} {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %.100q: %d %s", revision, body, w.Code, w.Body)
			}
		}
	}
}

// TestInputEndsAtOnce checks that a client that sends its requests and closes its output at once gets their answers.
func TestInputEndsAtOnce(t *testing.T) {
	t.Parallel()
	s, err := mcp.New(newHost(t), mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const lines = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"ping"}
`
	for range 50 {
		read, write := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), io.NopCloser(strings.NewReader(lines)), write) }()
		out, err := io.ReadAll(read)
		if err = cmp.Or(err, <-ended); err != nil {
			t.Fatal(err)
		}
		for id := 1; id <= 3; id++ {
			if !strings.Contains(string(out), fmt.Sprintf(`"id":%d,"result"`, id)) {
				t.Fatalf("no answer to %d: %s", id, out)
			}
		}
	}
}
