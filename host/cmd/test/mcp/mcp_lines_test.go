package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func read(id, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"read","arguments":{"file_path":"notes.txt"}%s}}`, id, more)
}

// TestMCPLines checks that the server answers invalid lines with an error and keeps the session open.
func TestMCPLines(t *testing.T) {
	t.Parallel()
	s := hosttest.LineSession(t, hosttest.MCPDir(t))
	well := func(id string) {
		t.Helper()
		if h := s.Hear(id); h.Error != nil || h.Result.IsError || h.Result.Content[0].Text != "one\ntwo\n" {
			t.Errorf("%+v", h)
		}
	}
	s.Say(read("1", ""))
	well("1")
	for name, c := range map[string]struct {
		line string
		code int
		says string
		id   string
	}{
		"no JSON":             {"nonsense", -32700, "one line of JSON", "null"},
		"cut off":             {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":`, -32700, "one line of JSON", "null"},
		"deep":                {`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}}`, -32602, "levels deep", "7"},
		"deep, its id last":   {`{"method":"tools/call","params":{"id":3,"name":"read","arguments":` + strings.Repeat(`{"id":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `},"jsonrpc":"2.0","id":"x"}`, -32602, "levels deep", `"x"`},
		"a message of 65 MiB": {read("7", `,"_meta":{"x":"`+strings.Repeat("x", 65<<20)+`"}`), -32600, "64 MiB", "7"},
	} {
		s.Say(c.line)
		if h := s.Hear(c.id); h.Error == nil || h.Error.Code != c.code || !strings.Contains(h.Error.Message, c.says) {
			t.Errorf("%s: %+v", name, h.Error)
		}
	}
	// The SDK must still receive all messages except plain calls.
	s.Say("", "   ", read(`"a-b"`, ""))
	well(`"a-b"`)
	s.Say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	s.Hear("8")
	s.Say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"nope","arguments":{}}}`)
	if h := s.Hear("9"); h.Error == nil || h.Error.Code != -32602 {
		t.Errorf("%+v", h)
	}
	s.Say(`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"read","arguments":7}}`)
	if h := s.Hear("10"); h.Error == nil && !h.Result.IsError {
		t.Errorf("%+v", h)
	}
	s.Say(`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"bash","arguments":{"command":"printf 'q\"\\\\\\t\\001\\303\\244\\377'"}}}`)
	if h := s.Hear("11"); h.Result.Content[0].Text != "q\"\\\t\x01ä\uFFFD" {
		t.Errorf("%+v", h)
	}
}

// TestMCPLinesCancel checks that a canceled call receives no answer, and that the id of the call can be used again.
// Then it makes many concurrent calls.
func TestMCPLinesCancel(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	s := hosttest.LineSession(t, dir)
	s.Say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 1617; echo over"}}}`)
	sleeps := func() bool {
		return slices.ContainsFunc(hosttest.Descendants(), func(p hosttest.Process) bool { return p.Command() == "sleep 1617" })
	}
	hosttest.Wait(t, "the command sleeps", sleeps)
	s.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	hosttest.Wait(t, "the canceled command ends", func() bool { return !sleeps() })
	s.Say(read("1", ""))
	if h := s.Hear("1"); h.Result.Content[0].Text != "one\ntwo\n" {
		t.Errorf("%+v", h)
	}
	// Concurrent calls can end in any order.
	var lines []string
	for i := range 200 {
		lines = append(lines, read(fmt.Sprint(100+i), ""))
	}
	s.Say(lines...)
	seen := make(map[string]bool)
	for range lines {
		line, err := s.Out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var h hosttest.Heard
		if err := json.Unmarshal(line, &h); err != nil || seen[string(h.ID)] || h.Result.Content[0].Text != "one\ntwo\n" {
			t.Fatalf("%v %.200s", err, line)
		}
		seen[string(h.ID)] = true
	}
}
