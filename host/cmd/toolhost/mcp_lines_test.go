package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// session is an MCP client that can send arbitrary lines to the server.
type session struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	end func() // end ends the program; also called at the end of the test
}

func lineSession(t *testing.T, dir string, args ...string) *session {
	t.Helper()
	c := toolhost(t, dir, append(args, "mcp")...)
	in, out := piped(t, c)
	s := &session{t, in, out, sync.OnceFunc(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})}
	t.Cleanup(s.end)
	s.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.hear(`"init"`)
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *session) say(lines ...string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.Join(lines, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

type heard struct {
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

// The method "hear" reads the next answer and checks that it answers the request with the given id.
func (s *session) hear(id string) heard {
	s.t.Helper()
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		var h heard
		if err := json.Unmarshal(line, &h); err != nil || !bytes.HasPrefix(line, []byte(`{"jsonrpc":"2.0",`)) && !bytes.HasPrefix(line, []byte(`{"id":`)) && h.Method == "" {
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

func read(id, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"read","arguments":{"file_path":"notes.txt"}%s}}`, id, more)
}

// TestMCPLines checks that the server answers invalid lines with an error and keeps the session open.
func TestMCPLines(t *testing.T) {
	t.Parallel()
	s := lineSession(t, mcpDir(t))
	well := func(id string) {
		t.Helper()
		if h := s.hear(id); h.Error != nil || h.Result.IsError || h.Result.Content[0].Text != "one\ntwo\n" {
			t.Errorf("%+v", h)
		}
	}
	s.say(read("1", ""))
	well("1")
	for name, c := range map[string]struct {
		line string
		code int
		says string
		id   string
	}{
		"no JSON":             {"nonsense", -32700, "one line of JSON", "null"},
		"cut off":             {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":`, -32700, "one line of JSON", "null"},
		"deep":                {`{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`, -32602, "levels deep", "7"},
		"deep, its id last":   {`{"method":"tools/call","params":{"id":3,"name":"read","arguments":` + strings.Repeat(`{"id":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `},"jsonrpc":"2.0","id":"x"}`, -32602, "levels deep", `"x"`},
		"a message of 65 MiB": {read("7", `,"_meta":{"x":"`+strings.Repeat("x", 65<<20)+`"}`), -32600, "64 MiB", "7"},
	} {
		s.say(c.line)
		if h := s.hear(c.id); h.Error == nil || h.Error.Code != c.code || !strings.Contains(h.Error.Message, c.says) {
			t.Errorf("%s: %+v", name, h.Error)
		}
	}
	// The SDK must still receive all messages except plain calls.
	s.say("", "   ", read(`"a-b"`, ""))
	well(`"a-b"`)
	s.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	s.hear("8")
	s.say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"nope","arguments":{}}}`)
	if h := s.hear("9"); h.Error == nil || h.Error.Code != -32602 {
		t.Errorf("%+v", h)
	}
	s.say(`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"read","arguments":7}}`)
	if h := s.hear("10"); h.Error == nil && !h.Result.IsError {
		t.Errorf("%+v", h)
	}
	s.say(`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"bash","arguments":{"command":"printf 'q\"\\\\\\t\\001\\303\\244\\377'"}}}`)
	if h := s.hear("11"); h.Result.Content[0].Text != "q\"\\\t\x01ä\uFFFD" {
		t.Errorf("%+v", h)
	}
}

// TestMCPLinesCancel checks that a canceled call receives no answer, and that the id of the call can be used again. Then
// it makes many concurrent calls.
func TestMCPLinesCancel(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	s := lineSession(t, dir)
	s.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 1617; echo over"}}}`)
	time.Sleep(300 * time.Millisecond)
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	s.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"pgrep -f '[s]leep 1617' | wc -l"}}}`)
	if h := s.hear("2"); strings.TrimSpace(h.Result.Content[0].Text) != "0" {
		t.Errorf("the canceled command still runs: %+v", h)
	}
	s.say(read("1", ""))
	if h := s.hear("1"); h.Result.Content[0].Text != "one\ntwo\n" {
		t.Errorf("%+v", h)
	}
	// Concurrent calls can end in any order.
	var lines []string
	for i := range 200 {
		lines = append(lines, read(fmt.Sprint(100+i), ""))
	}
	s.say(lines...)
	seen := make(map[string]bool)
	for range lines {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var h heard
		if err := json.Unmarshal(line, &h); err != nil || seen[string(h.ID)] || h.Result.Content[0].Text != "one\ntwo\n" {
			t.Fatalf("%v %.200s", err, line)
		}
		seen[string(h.ID)] = true
	}
}
