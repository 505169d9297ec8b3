package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wordsOfOthers lists the places where a literal that equals the name of a bundled tool means something else.
var wordsOfOthers = []place{
	{"agent", nil, "the rules of agents name tools, which the operator can replace"},
	{"internal/habit", nil, "names of the tools of other programs, and parameters"},
	{"internal/config/endpoint.go", nil, "the default configuration of a lazy endpoint"},
	{"internal/policy", nil, "kinds of permissions, access to a path, programs of the shell"},
	{"router/route.go", nil, "programs of the shell with their arguments"},
	{"router/rewrite.go", []string{"write"}, "the program write(1)"},
	{"export/export.go", []string{"bash"}, "the name of the function that replaces all tools, which models know"},
	{"cmd/internal/cli/policy.go", []string{"bash", "list"}, "a kind of permission, and a command of toolhost"},
	{"cmd/internal/cli", []string{"branch", "list", "undo"}, "commands and flags of toolhost"},
	{"internal/config/denied.go", []string{"edit"}, "a kind of permission"},
	{"internal/config/permissions.go", []string{"edit"}, "a kind of permission"},
	{"internal/config/render.go", []string{"read"}, "a word of the configuration"},
	{"internal/config/workspace.go", []string{"branch"}, "a word of the configuration"},
	{"internal/privilege", []string{"branch", "read", "write"}, "words of the configuration"},
	{"internal/manifest", []string{"read", "write"}, "words of the configuration"},
	{"internal/call/message.go", []string{"read"}, "access to a path"},
	{"internal/branchtool", []string{"branch", "list"}, "a kind of permission, and an action of the tool that the host answers"},
	{"internal/undo", []string{"list"}, "an action"},
	{"console", []string{"list"}, "an action"},
	{"internal/stage/safekeeping/branch.go", []string{"branch"}, "the name of the stage"},
	{"internal/engine", []string{"branch"}, "a mode of the workspace, and a key of a record"},
	{"internal/changeset", []string{"branch"}, "a key of the audit log"},
	{"internal/branch", []string{"branch"}, "the name of a file"},
	{"api", []string{"branch"}, "a key of the API"},
	{"batch", []string{"branch"}, "a key of the API"},
	{"mcp", []string{"branch"}, "a key of metadata"},
}

// place is a directory or a file where certain words mean something else. Nil words mean all words.
type place struct {
	path  string
	words []string
	why   string
}

// TestNoToolNames checks that the host knows no bundled tool by its name: a plugin of others could not replace such a tool under
// another name. What a tool is, its definition says; see tool.Role.
func TestNoToolNames(t *testing.T) {
	names := bundledNames(t)
	if len(names) < 18 {
		t.Fatalf("only %d names of bundled tools were found: %v", len(names), names)
	}
	used := make([]bool, len(wordsOfOthers))
	found := literals(t, ".", func(path string) bool {
		return path == "cmd/test" || strings.HasPrefix(path, "internal/test") || path == "scaffold/files"
	})
	for _, l := range found {
		if !slices.Contains(names, l.text) {
			continue
		}
		i := slices.IndexFunc(wordsOfOthers, func(p place) bool {
			return under(l.path, p.path) && (p.words == nil || slices.Contains(p.words, l.text))
		})
		if i < 0 {
			t.Errorf("%s:%d: %q is the name of a bundled tool; use its role, or add the place to wordsOfOthers if the word means something else", l.path, l.line, l.text)
			continue
		}
		used[i] = true
	}
	for i, p := range wordsOfOthers {
		if !used[i] || p.why == "" {
			t.Errorf("wordsOfOthers: %s has none of the words any more, or no reason; mend or remove the line", p.path)
		}
	}
}

// bundledNames returns the names in the definitions of the bundled plugins' tools.
func bundledNames(t *testing.T) []string {
	var out []string
	each(t, "../plugins", nil, func(_ string, _ *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			def, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if of, ok := def.Type.(*ast.SelectorExpr); !ok || of.Sel.Name != "Definition" {
				return true
			}
			for _, e := range def.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				key, _ := kv.Key.(*ast.Ident)
				if value, ok := kv.Value.(*ast.BasicLit); ok && key != nil && key.Name == "Name" {
					out = append(out, unquoted(t, value))
				}
			}
			return true
		})
	})
	return out
}

type literal struct {
	path string
	line int
	text string
}

// literals returns the string literals of the Go files below a directory, without tests.
func literals(t *testing.T, dir string, skip func(path string) bool) (out []literal) {
	each(t, dir, skip, func(path string, set *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				out = append(out, literal{path, set.Position(l.Pos()).Line, unquoted(t, l)})
			}
			return true
		})
	})
	return out
}

// each parses the Go files below a directory, without tests.
func each(t *testing.T, dir string, skip func(path string) bool, f func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || skip != nil && skip(filepath.ToSlash(path))):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err == nil {
			f(filepath.ToSlash(path), set, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func unquoted(t *testing.T, l *ast.BasicLit) string {
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
