package host_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wordsOfOthers lists the places where a literal that equals the name of a bundled tool means something else.
var wordsOfOthers = []words{
	{"names of the tools of other programs, and parameters", []string{"internal/habit"}, nil},
	{"rules of agents about the tools of the host and their own", []string{"agent"}, nil},
	{"programs and subcommands of the shell", []string{"internal/policy"}, []string{"branch", "glob", "list", "read"}},
	{"programs of the shell", []string{"export"}, nil},
	{"kinds of permissions", []string{"internal/policy", "cmd/internal/cli/policy.go"}, []string{"bash"}},
	{"kinds of permissions", []string{"internal/policy", "internal/config"}, []string{"edit"}},
	{"commands and flags of toolhost", []string{"cmd/internal/cli"}, []string{"branch", "list", "undo"}},
	{"words of the configuration", []string{"internal/config", "internal/manifest", "internal/privilege"}, []string{"read"}},
	{"words of the configuration", []string{"internal/config", "internal/manifest", "internal/privilege"}, []string{"write"}},
	{"words of the configuration", []string{"internal/config"}, []string{"branch", "undo"}},
	{"a key of requests, results and records", []string{"api", "batch", "mcp", "internal/changeset", "internal/engine"}, []string{"branch"}},
}

// words are words that mean something else in directories or files. Nil means all words.
type words struct {
	why   string
	paths []string
	words []string
}

// TestNoToolNames checks that the host and the module branch know no bundled tool by its name: a plugin of others could
// not replace such a tool under another name. What a tool is, its definition says; see tool.Role.
func TestNoToolNames(t *testing.T) {
	names := bundledNames(t)
	if len(names) < 18 {
		t.Fatalf("only %d names of bundled tools were found: %v", len(names), names)
	}
	used := make(map[string]bool)
	found := literals(t, ".", func(path string) bool {
		return path == "cmd/test" || strings.HasPrefix(path, "internal/test") || strings.HasPrefix(path, "cmd/internal/test") || path == "scaffold/files"
	})
	found = append(found, literals(t, "../branch", nil)...)
	for _, l := range found {
		if slices.Contains(names, l.text) && !excused(l, used) {
			t.Errorf("%s:%d: %q is the name of a bundled tool; use its role, or add the place to wordsOfOthers if the word means something else", l.path, l.line, l.text)
		}
	}
	for i, w := range wordsOfOthers {
		if w.words == nil {
			w.words = []string{""}
		}
		for _, path := range w.paths {
			for _, word := range w.words {
				if !used[use(i, path, word)] {
					t.Errorf("wordsOfOthers: %s does not have %q any more; mend or remove the line", path, word)
				}
			}
		}
	}
}

// excused reports whether wordsOfOthers contains the place of a literal, and notes what is used of it.
func excused(l literal, used map[string]bool) (found bool) {
	for i, w := range wordsOfOthers {
		for _, path := range w.paths {
			switch {
			case !under(l.path, path):
			case w.words == nil:
				used[use(i, path, "")], found = true, true
			case slices.Contains(w.words, l.text):
				used[use(i, path, l.text)], found = true, true
			}
		}
	}
	return found
}

func use(line int, path, word string) string { return strconv.Itoa(line) + " " + path + " " + word }

// withoutDefaults lists the bundled plugins whose manifest names no tools: they serve the tools of others, and none
// with a role.
var withoutDefaults = []string{"function", "mcp", "replay", "snippet"}

// TestManifestsNameTools checks that the manifest of each bundled plugin names its tools. By these names, the host
// keeps their roles from other plugins while the plugin is not loaded. A plugin with a role also needs the program with
// which tests replace it.
func TestManifestsNameTools(t *testing.T) {
	manifests, err := filepath.Glob("../plugins/*/toolhost-plugin.json")
	if err != nil || len(manifests) < 8 {
		t.Fatal(manifests, err)
	}
	for _, path := range manifests {
		b, err := os.ReadFile(path)
		var m struct {
			Name  string
			Tools []string
		}
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := namesIn(t, filepath.Dir(path))
		slices.Sort(want)
		if slices.Sort(m.Tools); !slices.Equal(m.Tools, want) && !slices.Contains(withoutDefaults, m.Name) {
			t.Errorf("%s names %q, and the plugin has %q", path, m.Tools, want)
		}
		renamed := filepath.Join(filepath.Dir(path), "internal", "renamed")
		if _, err := os.Stat(renamed); err != nil && hasRole(t, filepath.Dir(path)) {
			t.Errorf("%v: a plugin with a role needs this program, so that replaced.txtar can replace the plugin", err)
		}
	}
}

// hasRole reports whether a definition in the sources of a plugin has a role.
func hasRole(t *testing.T, dir string) (found bool) {
	each(t, dir, nil, func(_ string, _ *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Role") {
				found = true
			}
			return true
		})
	})
	return found
}

// bundledNames returns the names in the definitions of the bundled plugins' tools.
func bundledNames(t *testing.T) []string { return namesIn(t, "../plugins") }

func namesIn(t *testing.T, dir string) []string {
	var out []string
	each(t, dir, nil, func(_ string, _ *token.FileSet, f *ast.File) {
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
