package config_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// suggestion matches the begin of a block in a text for an operator.
var suggestion = regexp.MustCompile(`\b(?:sandbox|plugin|permissions|host|field|mcp|function|alias|endpoint|principal|issuer|branch|record|workspace|root|limits|hook|tool|audit|quota|paths|programs|trust|fleet|session|console|adaptive|allow|ask|deny)(?: (?:"[^"]+"|%q|[A-Z]+))? \{`)

// placeholders contains what stands for a value in a suggestion.
var placeholders = []struct{ from, to string }{
	{`%q`, `"x"`}, {`%s`, `x`}, {`%d`, `1`}, {`\[…\]`, `["/x"]`}, {`"…"`, `"1s"`}, {`= …`, `= null`}, {`\{ … \}`, `{}`}, {` [A-Z]+ \{`, ` "x" {`},
}

// places are blocks in which a suggested block can stand. The message names them.
var places = []string{
	"@", "sandbox {\n@\n}", "workspace {\n@\n}", "permissions {\n@\n}", "principal \"p\" {\n@\n}", "plugin \"p\" {\npath = \"/p\"\n@\n}", "plugin \"p\" {\npath = \"/p\"\nsandbox {\n@\n}\n}",
	"field \"f\" {\n@\n}", "field \"f\" {\nmcp {\nurl = \"https://x\"\n}\nsandbox {\n@\n}\n}",
}

// TestSuggestedBlocks checks the blocks of a configuration that messages suggest: a configuration can contain them, and
// has the settings that they name.
func TestSuggestedBlocks(t *testing.T) {
	checked := 0
	for text, at := range suggestions(t) {
		notation := strings.Contains(text, "{ … }") // it only names blocks
		for _, p := range placeholders {
			text = regexp.MustCompile(p.from).ReplaceAllString(text, p.to)
		}
		named := text
		for last := ""; named != last; {
			last, named = named, bare.ReplaceAllString(named, "$1$2 = null$3")
		}
		checked++
		if problem := unsupported(named, named != text || notation); problem != "" {
			t.Errorf("%s suggests\n%s\n%s", at, text, problem)
		}
	}
	if checked < 30 {
		t.Errorf("only %d suggestions", checked)
	}
	for _, wrong := range []string{`sandbox { enforced = "off" }`, `workspace { checkpoint { ignored = true } }`, `tool "x" { "a" }`, `limits { memories = null }`} {
		if unsupported(wrong, true) == "" {
			t.Errorf("%s counts as valid", wrong)
		}
	}
}

// several is the advice in the error for a block that needs several lines.
var several = regexp.MustCompile(`(?s)Write it over several lines:\n(.*?\n)   \d+ \| `)

// bare matches the name of a setting without its value.
var bare = regexp.MustCompile(`([{,]\s*)([a-z_]+)(\s*[,}])`)

// unsupported returns why no place of a configuration can contain a block, or "". If lines is true, the block can be
// written over several lines.
func unsupported(block string, lines bool) (problem string) {
	for _, place := range places {
		text := strings.ReplaceAll(place, "@", block)
		_, err := config.Parse([]byte(text+"\n"), "x.hcl", config.Environment{})
		if err != nil && lines {
			if m := several.FindStringSubmatch(err.Error()); m != nil {
				_, err = config.Parse([]byte(strings.ReplaceAll(text, block, m[1])), "x.hcl", config.Environment{})
			}
		}
		if err == nil || !regexp.MustCompile(`(?i)a block in one line|there is no "\w+" in |unsupported|unknown|unexpected|not expected|invalid .*definition|missing|required`).MatchString(err.Error()) {
			return ""
		}
		problem += err.Error() + "\n"
	}
	return problem
}

// suggestions returns the blocks in the texts of the program and in the documents, with their positions.
func suggestions(t *testing.T) map[string]string {
	out := make(map[string]string)
	documents := regexp.MustCompile("(?s)```hcl\n(.*?)```|`([^`\n]*)`")
	for _, dir := range []string{"host", "plugins", "sdk", "docs", "README.md", "examples"} {
		err := filepath.WalkDir(filepath.Join("../../..", dir), func(path string, d fs.DirEntry, err error) error {
			name := filepath.Base(path)
			switch {
			case err != nil:
				return err
			case d.IsDir() && (name == "testdata" || name == "node_modules" || name == "adr" || strings.HasPrefix(name, "test")):
				return fs.SkipDir
			case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
				return literals(path, func(text string, line int) { collect(out, text, fmt.Sprintf("%s:%d", path, line)) })
			case strings.HasSuffix(name, ".md"):
				b, err := os.ReadFile(path)
				for _, m := range documents.FindAllSubmatch(b, -1) {
					collect(out, string(m[1])+string(m[2]), path)
				}
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// literals calls a function for each literal text in a file of Go.
func literals(path string, found func(text string, line int)) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, bad := strconv.Unquote(l.Value)
			err = cmp.Or(err, bad)
			found(text, files.Position(l.Pos()).Line)
		}
		return true
	})
	return err
}

// unknown matches a part of a format that stands for settings.
var unknown = regexp.MustCompile(`\w+ \{\s*%s\s*\}`)

// collect adds the blocks in a text.
func collect(to map[string]string, text, at string) {
	text = unknown.ReplaceAllString(text, "")
	for {
		m := suggestion.FindStringIndex(text)
		if m == nil {
			return
		}
		block := balanced(text[m[0]:])
		if block != "" {
			to[block] = at
		}
		text = text[m[0]+max(len(block), 1):]
	}
}

// balanced returns the beginning of a text up to the brace that closes its first brace, or "".
func balanced(text string) string {
	depth := 0
	for i, r := range text {
		switch r {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[:i+1]
			}
		}
	}
	return ""
}
