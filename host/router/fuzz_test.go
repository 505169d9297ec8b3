package router_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/host/router"
)

// FuzzParse checks that every text has exactly one destination: a tool, the shell, help, or an error. It also checks
// that Parse expands nothing.
func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Command string }
	if err := json.Unmarshal(b, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		c := router.Parse(command, tools, options)
		consistent(t, c)
		again := router.Parse(command, tools, options)
		marked := options
		marked.Commands = true
		if m := router.Parse(command, tools, marked); m.Layer != c.Layer || m.Rule != c.Rule || m.Raw != c.Raw {
			t.Errorf("%q is for %s (%s), and for %s (%s) where commands can call tools", command, c.Layer, c.Rule, m.Layer, m.Rule)
		} else if strings.ReplaceAll(string(m.Kwargs["command"]), "tool:", "") != strings.ReplaceAll(string(c.Kwargs["command"]), "tool:", "") {
			t.Errorf("%q became %s", command, m.Kwargs["command"])
		}
		x, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%q does not marshal: %v", command, err)
		}
		if y, _ := json.Marshal(again); string(x) != string(y) {
			t.Errorf("%q means two things:\n%s\n%s", command, x, y)
		}
		if !utf8.ValidString(command) {
			return
		}
		// Parse must not change a quoted text.
		literal := router.Parse("tool:write f '"+strings.ReplaceAll(command, "'", `'\''`)+"'", tools, options)
		if strings.IndexByte(command, 0) >= 0 || len(command) > 1<<20 {
			return
		}
		var got string
		if literal.Error != nil || json.Unmarshal(literal.Arguments["content"], &got) != nil || got != command {
			t.Errorf("%q came through single quotes as %q (%v)", command, got, literal.Error)
		}
	})
}

// consistent checks conditions that every result must meet.
func consistent(t *testing.T, c *router.Command) {
	t.Helper()
	switch {
	case c.Error != nil:
		if c.Arguments != nil || c.Rule != router.RuleRefused {
			t.Errorf("%q is refused and runs: %s %v", c.Raw, c.Rule, c.Arguments)
		}
		if !utf8.ValidString(c.Error.Message) || len(c.Error.Message) > 4000 {
			t.Errorf("%q: the message is %d bytes or no text", c.Raw, len(c.Error.Message))
		}
	case c.IsHelp:
		if c.Arguments != nil || c.Layer == router.Native {
			t.Errorf("%q asks for help and runs", c.Raw)
		}
	case c.Layer == router.Native:
		var command string
		if err := json.Unmarshal(c.Kwargs["command"], &command); err != nil || command != c.Raw && command != "{ "+c.Raw+"\n}" {
			t.Errorf("%q goes to the shell as %q", c.Raw, command)
		}
		if c.Arguments != nil || c.Namespace != "" {
			t.Errorf("%q goes to the shell and to a tool", c.Raw)
		}
	case c.Arguments == nil || c.Name == "":
		t.Errorf("%q goes nowhere", c.Raw)
	}
	if c.Args == nil || c.Kwargs == nil || c.Reason == "" {
		t.Errorf("%q: something is not filled in: %+v", c.Raw, c)
	}
	for k, v := range c.Kwargs {
		if !json.Valid(v) {
			t.Errorf("%q: %s is not JSON: %q", c.Raw, k, v)
		}
	}
}

// FuzzFunction checks that all arguments are either bound or refused.
func FuzzFunction(f *testing.F) {
	for _, s := range []string{`{"file_path":"a"}`, `"{\"file_path\":\"a\"}"`, `null`, ``, `[]`, `{"FilePath":"a","file-path":"b"}`, `{"file_path":null}`, `{`, `"x"`, `{"a":1,"a":2}`} {
		f.Add("edit", s)
		f.Add("field:jira search", s)
		f.Add("open", s)
	}
	f.Fuzz(func(t *testing.T, name, args string) {
		c := router.Function(name, json.RawMessage(args), tools)
		if (c.Error == nil) == (c.Arguments == nil) {
			t.Errorf("%s %s: error %v, arguments %v", name, args, c.Error, c.Arguments)
		}
		x, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if y, _ := json.Marshal(router.Function(name, json.RawMessage(args), tools)); string(x) != string(y) {
			t.Errorf("%s %s means two things:\n%s\n%s", name, args, x, y)
		}
	})
}
