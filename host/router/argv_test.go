package router_test

import (
	"errors"
	"strings"
	"testing"

	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
)

func TestArgv(t *testing.T) {
	for _, tc := range []struct {
		why   string
		argv  []string
		stdin string // "-" means that the command has no standard input
		need  bool   // whether Argv must call the function stdin with required = true
		want  map[string]string
		kind  tool.Kind
		says  string
	}{
		{why: "plain words", argv: []string{"tool:read", "a b.txt", "--limit", "3"}, stdin: "-", want: map[string]string{"file_path": `"a b.txt"`, "limit": "3"}},
		{why: "nothing is expanded or unquoted again", argv: []string{"tool:read", `$x '"`}, stdin: "-", want: map[string]string{"file_path": `"$x '\""`}},
		{why: "standard input where it is required", argv: []string{"tool:write", "f"}, stdin: "text\n", need: true, want: map[string]string{"file_path": `"f"`, "content": `"text\n"`}},
		{why: "positionals come before it", argv: []string{"tool:write", "f", "given"}, stdin: "text", want: map[string]string{"content": `"given"`}},
		{why: "where it is not required it may be left", argv: []string{"tool:edit", "f", "old"}, stdin: "-", want: map[string]string{"old_string": `"old"`}},
		{why: "where it is not required it may be used", argv: []string{"tool:edit", "f", "old"}, stdin: "new", want: map[string]string{"new_string": `"new"`}},
		{why: "an alias", argv: []string{"tool:file_read", "--path=f"}, stdin: "-", want: map[string]string{"file_path": `"f"`}},
		{why: "a field", argv: []string{"field:jira", "search", "--q", "a=b"}, stdin: "-", want: map[string]string{"q": `"a=b"`}},
		{why: "a field tool", argv: []string{"jira:search", "x"}, stdin: "-", want: map[string]string{"q": `"x"`}},
		{argv: []string{"tool:nosuch"}, stdin: "-", kind: tool.NotFound, says: `Unknown tool "nosuch"`},
		{argv: []string{"field:nosuch", "x"}, stdin: "-", kind: tool.NotFound, says: `Unknown field namespace "nosuch"`},
		{argv: []string{"nosuch:x"}, stdin: "-", kind: tool.NotFound, says: `Unknown tool "nosuch:x"`},
		{argv: []string{"tool:write", "f"}, stdin: "-", need: true, kind: tool.InvalidArguments, says: `missing required parameter "content"`},
		{argv: []string{"tool:write", "f"}, stdin: "a\x00b", need: true, kind: tool.InvalidArguments, says: "standard input cannot be read: The command contains a NUL byte"},
		{argv: []string{"tool:write", "f\xff", "x"}, stdin: "-", kind: tool.InvalidArguments, says: "not valid UTF-8"},
		{why: "what is wrong otherwise takes no input", argv: []string{"tool:write", "f", "--bad", "1"}, stdin: "unread", kind: tool.InvalidArguments, says: `unknown parameter "bad"`},
	} {
		asked := false
		c := router.Argv(tc.argv[0], tc.argv[1:], func(required bool) (string, bool, error) {
			asked = true
			if required != tc.need {
				t.Errorf("%q: required is %v", tc.argv, required)
			}
			return strings.TrimPrefix(tc.stdin, "-"), tc.stdin != "-", nil
		}, tools)
		if tc.stdin == "unread" && asked {
			t.Errorf("%q: standard input was taken", tc.argv)
		}
		if tc.kind != "" {
			if c.Error == nil || c.Error.Kind != tc.kind || !strings.Contains(c.Error.Message, tc.says) {
				t.Errorf("%q: %v", tc.argv, c.Error)
			}
			continue
		}
		if c.Error != nil {
			t.Errorf("%q: %v", tc.argv, c.Error)
			continue
		}
		for k, v := range tc.want {
			if string(c.Arguments[k]) != v {
				t.Errorf("%q: %s is %s, wanted %s", tc.argv, k, c.Arguments[k], v)
			}
		}
	}
	c := router.Argv("tool:write", []string{"f"}, func(bool) (string, bool, error) { return "", false, errors.New("it broke") }, tools)
	if c.Error == nil || !strings.Contains(c.Error.Message, "it broke") {
		t.Errorf("%v", c.Error)
	}
}

func TestRewrite(t *testing.T) {
	withCommands := options
	withCommands.Commands = true
	for command, want := range map[string]string{
		"cd src && read foo.go":                     "cd src && tool:read foo.go",
		"cd src; read foo.go --limit 3; read a.go":  "cd src; tool:read foo.go --limit 3; tool:read a.go",
		"x=$(read foo.go)":                          "x=$(tool:read foo.go)",
		"if true; then read foo.go; fi":             "if true; then tool:read foo.go; fi",
		"read foo.go | head -3":                     "tool:read foo.go | head -3",
		"write q.txt hello; cat q.txt":              "tool:write q.txt hello; cat q.txt",
		"write root; write":                         "write root; write",
		"cd src && write --file_path a --content b": "cd src && tool:write --file_path a --content b",
		"cd src && grep --output_mode count foo":    "cd src && tool:grep --output_mode count foo",
		"ls | write --file_path a":                  "ls | tool:write --file_path a",
		"while read l; do echo $l; done":            "",
		"while IFS= read -r line; do :; done < f":   "",
		"read name; echo $name":                     "",
		"read -p '? ' x && echo $x":                 "",
		"cd src; read $f":                           "",
		"cat f | grep foo":                          "",
		"cat f | grep --output_mode count foo":      "",
		"cat f | read foo.go":                       "",
		"read() { :; }; read foo.go":                "",
		"cd x && 'read' foo.go":                     "",
		`cd x && \read foo.go`:                      "",
		"cd x && list sub":                          "",
		"echo 'cd src && read foo.go' | cat":        "",
		"cat <<'E' | cat\ncd x && read foo.go\nE":   "",
		"X=1 read foo.go && true":                   "",
	} {
		c := router.Parse(command, tools, withCommands)
		if want == "" {
			want = command
		}
		if got := decode(t, c.Kwargs)["command"]; c.Layer != router.Native || got != want || c.Raw != command {
			t.Errorf("%q: %s, %v", command, c.Layer, got)
		}
		// Parse must not change the text if commands cannot call tools.
		if got := decode(t, router.Parse(command, tools, options).Kwargs)["command"]; got != command {
			t.Errorf("%q became %v", command, got)
		}
	}
}
