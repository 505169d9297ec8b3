//go:build !race

package router_test

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"toolhost.dev/host/router"
)

// TestOracleDeepNesting checks that deeply nested text does not overflow the parser's stack. A stack overflow would end
// the process.
func TestOracleDeepNesting(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(48 << 20))
	for _, unit := range []string{
		"if ", "while ", "until ", "for i in a; do ", "select i in a; do ", "case x in x) ", "{ ", "(", "((", "( ", "$(", "a $(", "x=$(", `"$(`, "`", "${", "${a:-", `"${a:-"`,
		"${a[", "${a:", "${a/", "${!a", "$((", "$((-", "$((a?", "$((1+", "$((2**", "$((a[", "$((!", "$[", "((a=", "((a,", "((!", "(( (", "[[ (", "[[ ! ", "[[ a && ", "[[ a =~ (",
		"! ", "time ", "time -p ", "coproc ", "f() ", "function f { ", "<(", "a <(", ">(", "a[", "a=(", "declare a=(", "let a=", "@(", "a @(", "a && ", "a || ", "a | ", "a |& ", "a; ", "a & ", "a\n",
		"<<E\n$(", "a <<E\n", "a <<<$(", "$'", "{a,", "else ", "elif ", "\\\n", "'a'", "[", "]", ")", "}", "fi ", "done ", ";;", "<", ">", "&", "|", "a=", "tool:write f foo(", "tool:write ((",
	} {
		t.Run(unit, func(t *testing.T) {
			consistent(t, router.Parse(strings.Repeat(unit, 256<<10/len(unit)), tools, options))
			for _, prefix := range []string{"", "echo ", "tool:write f "} {
				consistent(t, router.Parse(prefix+strings.Repeat(unit, 1000), tools, options))
			}
		})
	}
}

func TestOracleDeepNestingIsExplained(t *testing.T) {
	c := router.Parse("echo "+strings.Repeat("$(", 100_000), tools, options)
	if c.Error == nil || !strings.Contains(c.Error.Message, "is nested too deep before line 1, column ") {
		t.Error(c.Error)
	}
}

// TestOracleLegitimateDepth checks that realistic nesting is accepted, and that brackets in quotes do not count.
func TestOracleLegitimateDepth(t *testing.T) {
	for _, tc := range []struct{ name, command string }{
		{"substitutions", strings.Repeat("echo $(", 500) + "true" + strings.Repeat(")", 500)},
		{"ifs", strings.Repeat("if true; then ", 500) + "true" + strings.Repeat("; fi", 500)},
		{"arithmetic", "echo $((" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "))"},
		{"quoted", "write a '" + strings.Repeat("({[", 1<<20) + "'"},
		{"double quoted", `write a "` + strings.Repeat("({[", 1<<20) + `"`},
		{"heredoc", "write a <<'E'\n" + strings.Repeat("({[\n", 1<<20) + "E\n"},
		{"open heredoc", "write a <<E\n" + strings.Repeat("({[\n", 1<<20) + "E\n"},
		{"long list", strings.Repeat("echo a && ", 200_000) + "true"},
		{"long pipe", strings.Repeat("cat | ", 100_000) + "cat"},
		{"many lines", strings.Repeat("echo a\n", 200_000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := router.Parse(tc.command, tools, options)
			consistent(t, c)
			if c.Error != nil {
				t.Errorf("refused: %.200s", c.Error.Message)
			}
		})
	}
}

func TestOracleLargeCommands(t *testing.T) {
	content := strings.Repeat("line of a big file with $x and `y` and \"q\"\n", 10<<20/44)
	for _, tc := range []struct{ name, command string }{
		{"quoted heredoc", "write a <<'E'\n" + content + "E\n"},
		{"single quotes", "write a '" + content + "'"},
		{"flag", "write a --content='" + content + "'"},
	} {
		c := router.Parse(tc.command, tools, options)
		var got string
		if c.Error != nil || json.Unmarshal(c.Arguments["content"], &got) != nil || got != content {
			t.Errorf("%s: %d of %d bytes, %v", tc.name, len(got), len(content), c.Error)
		}
	}
	c := router.Parse(strings.Repeat("x", router.MaxCommand+1), tools, options)
	if c.Error == nil || !strings.Contains(c.Error.Message, fmt.Sprintf("the limit is %d", router.MaxCommand)) {
		t.Error(c.Error)
	}
}

func TestOracleManyFlags(t *testing.T) {
	var b strings.Builder
	b.WriteString("calc 1")
	for i := range 10_000 {
		fmt.Fprintf(&b, " --ids %d", i)
	}
	c := router.Parse(b.String(), tools, options)
	var ids []int
	if c.Error != nil || json.Unmarshal(c.Arguments["ids"], &ids) != nil || len(ids) != 10_000 || ids[9_999] != 9_999 {
		t.Errorf("%d flags, %v", len(ids), c.Error)
	}
	c = router.Parse("open"+strings.Repeat(" --a 1", 10_000), tools, options)
	if c.Error != nil {
		t.Error(c.Error)
	}
	c = router.Parse("calc 1"+strings.Repeat(" --nope 1", 10_000), tools, options)
	consistent(t, c)
	c = router.Parse("write a"+strings.Repeat(" <<E", 2_000)+"\n"+strings.Repeat("x\nE\n", 2_000), tools, options)
	consistent(t, c)
}

func TestOracleFunction(t *testing.T) {
	for _, tc := range []struct{ name, args, kwargs, err string }{
		{"edit", `{"file_path":"a"}`, `{"file_path":"a"}`, ""},
		{"tool:edit", `{"file_path":"a"}`, `{"file_path":"a"}`, ""},
		{"edit", `{"file-path":"a","replaceAll":true}`, `{"file_path":"a","replace_all":true}`, ""},
		{"edit", `"{\"file_path\":\"a\"}"`, `{"file_path":"a"}`, ""},
		{"edit", `{"file_path":"a","old_string":null}`, `{"file_path":"a"}`, ""},
		{"field:jira search", `{"q":"x"}`, `{"q":"x"}`, ""},
		{"jira:search", `{"q":"x"}`, `{"q":"x"}`, ""},
		{"list", ``, `{}`, ""},
		{"list", `null`, `{}`, ""},
		{"calc", `{"x":12345678901234567890,"n":9007199254740993}`, `{"x":12345678901234567890,"n":9007199254740993}`, ""},
		{"edit", `{"filePath":"a","file-path":"b"}`, "", `"file_path" is given twice`},
		{"edit", `{"file_path":"a","file-path":"b"}`, "", `unknown parameter "file-path"`},
		{"edit", `[1]`, "", "not a JSON object"},
		{"edit", `{`, "", "not a JSON object"},
		{"edit", `{"file_path":1}`, "", `must be string, not integer 1`},
		{"edt", `{}`, "", `Unknown tool "edt". Did you mean "edit"?`},
		{"raed", `{"file_path":"a.go","x":1}`, "", `To call read: {"arguments":{"file_path":"a.go"},"name":"read"}`},
		{"raed", `[]`, "", `To call read: {"arguments":{"file_path":"…"},"name":"read"}`},
		{"jira:serch", `{}`, "", `Did you mean "search"?`},
		{"jra:search", `{}`, "", `Unknown field namespace "jra"`},
		{"", `{}`, "", "Unknown tool"},
	} {
		c := router.Function(tc.name, json.RawMessage(tc.args), tools)
		switch {
		case tc.err != "":
			if c.Error == nil || !strings.Contains(c.Error.Message, tc.err) || c.Arguments != nil {
				t.Errorf("%s %s: %v, wanted %q", tc.name, tc.args, c.Error, tc.err)
			}
		case c.Error != nil:
			t.Errorf("%s %s: %v", tc.name, tc.args, c.Error)
		default:
			var want map[string]json.RawMessage
			if err := json.Unmarshal([]byte(tc.kwargs), &want); err != nil {
				t.Fatal(err)
			}
			x, _ := json.Marshal(c.Arguments)
			if y, _ := json.Marshal(want); string(x) != string(y) {
				t.Errorf("%s %s: %s, wanted %s", tc.name, tc.args, x, y)
			}
		}
	}
}

func BenchmarkShort(b *testing.B) {
	for b.Loop() {
		router.Parse("grep --pattern foo --path src --ignore_case", tools, options)
	}
}

func BenchmarkNative(b *testing.B) {
	for b.Loop() {
		router.Parse("cd src && go test ./... 2>&1 | tail -5", tools, options)
	}
}

func BenchmarkHeredoc50KB(b *testing.B) {
	command := "write a.go <<'EOF'\n" + strings.Repeat("\tif x := f(a, \"b\"); x != nil { return }\n", 50<<10/40) + "EOF\n"
	b.SetBytes(int64(len(command)))
	for b.Loop() {
		router.Parse(command, tools, options)
	}
}
