// Package testlines sends random lines to an MCP server, and checks that each line is answered as the protocol
// requires. It is for tests. [Session] is one connection to a server.
package testlines

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// Revisions are the revisions of MCP.
var Revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", stateless}

const stateless = "2026-07-28"

// Session is a connection to a server over a pair of streams. The tool Tool of the server is called with the argument
// "text".
type Session struct {
	T        testing.TB
	Revision string
	In       io.Writer
	Out      *bufio.Reader
	Tool     string
	// Seed determines the lines.
	Seed uint64

	random *rand.Rand
	pings  int
	sent   int
}

// Run begins the session and sends a number of random lines. After each line, a ping must be answered.
func (s *Session) Run(lines int) {
	s.T.Helper()
	s.Begin()
	for range lines {
		s.Send(s.line())
	}
}

// Begin initializes the session.
func (s *Session) Begin() {
	s.T.Helper()
	s.random = rand.New(rand.NewPCG(s.Seed, 1)) //nolint:gosec // a test wants the same numbers again
	if s.Revision != stateless {
		s.Send([]byte(`{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"` + s.Revision + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		s.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
}

// Send sends a text, which can have several lines, and then a ping. It checks that exactly the answers arrive that the
// oracle requires.
func (s *Session) Send(text []byte) {
	s.T.Helper()
	s.sent++
	var want wanted
	var arrays [][]answer
	ids := make(map[string]bool)
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		w := oracle(s.Revision, line)
		repeated(ids, w.lines)
		repeated(ids, w.array)
		want.lines = append(want.lines, w.lines...)
		if w.array != nil {
			arrays = append(arrays, w.array)
		}
	}
	s.pings++
	ping := fmt.Sprintf(`"ping-%d"`, s.pings)
	want.lines = append(want.lines, answer{id: ping})
	written := make(chan error, 1)
	go func() { // the server can answer the first line before it reads the last one
		_, err := fmt.Fprintf(s.In, "%s\n%s\n", text, s.ping(ping))
		written <- err
	}()
	for len(want.lines) > 0 || len(arrays) > 0 {
		line, err := s.Out.ReadBytes('\n')
		if err != nil {
			s.T.Fatalf("seed %d, line %d: %v after %.300q; unanswered: %v", s.Seed, s.sent, err, text, want)
		}
		answers, array, err := parse(bytes.TrimSpace(line))
		if err != nil {
			s.T.Fatalf("seed %d, line %d: %v after %.300q", s.Seed, s.sent, err, text)
		}
		if array {
			i := slices.IndexFunc(arrays, func(w []answer) bool { return same(w, answers) })
			if i < 0 {
				s.T.Fatalf("seed %d, line %d: %.300q was answered with %.300q, and the answers should be %v", s.Seed, s.sent, text, line, arrays)
			}
			arrays = slices.Delete(arrays, i, i+1)
			continue
		}
		for _, a := range answers {
			if !take(&want.lines, a) {
				s.T.Fatalf("seed %d, line %d: %.300q was answered with %.300q, and the answers should be %v", s.Seed, s.sent, text, line, want.lines)
			}
		}
	}
	if err := <-written; err != nil {
		s.T.Fatalf("seed %d, line %d: %v after %.300q", s.Seed, s.sent, err, text)
	}
}

// same reports whether the answers of an array are those that are wanted.
func same(want, got []answer) bool {
	rest := slices.Clone(want)
	for _, a := range got {
		if !take(&rest, a) {
			return false
		}
	}
	return len(rest) == 0
}

func (s *Session) ping(id string) string {
	if s.Revision == stateless {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"server/discover","params":{` + meta + `}}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`

// message returns a valid message.
func (s *Session) message() string {
	more, only := "", ""
	if s.Revision == stateless {
		more, only = ","+meta, meta
	}
	id := s.pick(`1`, `2`, `"a"`, `"b c"`, `0`, `-7`, s.id())
	return s.pick(
		`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+s.Tool+`","arguments":{"text":"hello"}`+more+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+s.Tool+`","arguments":{"text":"`+s.pick("", "é", `\u0000`, `\ud83d`,
			`\"`)+`"}`+more+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"nothing","arguments":{}`+more+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list","params":{`+only+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"server/discover","params":{`+only+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"initialize","params":{"protocolVersion":"`+s.Revision+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"prompts/list","params":{`+only+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"resources/read","params":{"uri":"test://x"`+more+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}`+more+`}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`,
		`{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-1,"message":"no"}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"enough"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
	)
}

func (s *Session) pick(from ...string) string { return from[s.random.IntN(len(from))] }

// id returns an unusual value of an id.
func (s *Session) id() string {
	return s.pick(`1.5`, `1e0`, `1.0`, `-0`, `12345678901234567890`, `9007199254740993`, `1e400`, `-1e-400`, `null`,
		`true`, `{}`, `[1]`, `""`, `"1"`, `"\ud800"`, `"\u0061"`, `"\u0000"`, `"<&>"`, "\"\xff\"", "\"\u2028\"",
		`"`+string(bytes.Repeat([]byte("x"), 300))+`"`)
}

// value returns a JSON value, or nearly one.
func (s *Session) value() string {
	return s.pick(s.id(), `"2.0"`, `2.0`, `"x"`, `{}`, `[]`, `[{}]`, `null`, `false`, `nul`, `"ping"`, `"tools/call"`,
		`{"a":{"b":[1,2,{"c":null}]}}`, deep(s.pick("[", `{"a":`), s.random.IntN(700)), deep("[", 11_000))
}

// deep returns a nested value.
func deep(open string, n int) string {
	end := map[string]string{"[": "]", `{"a":`: "}"}[open]
	return string(bytes.Repeat([]byte(open), n)) + "1" + string(bytes.Repeat([]byte(end), n))
}
