package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers lists the packages of the module, from the top layer to the bottom layer. A package can import only packages
// of lower layers.
var layers = [][]string{
	{"cmd/toolhost", "cmd/toolhost-shim", "cmd/toolhost-coordinator"},
	{"cmd/test/branches", "cmd/test/calls", "cmd/test/cli", "cmd/test/docs", "cmd/test/durable", "cmd/test/fleet", "cmd/test/http", "cmd/test/mcp", "cmd/test/sandbox"},
	{"cmd/test/hosttest", "cmd/internal/testclient", "cmd/internal/testplugin", "cmd/internal/testserver"},
	{"cmd/internal/cli"},
	{"cmd/internal/cli/branchcmd", "cmd/internal/cli/configcmd", "cmd/internal/cli/fleetcmd", "cmd/internal/cli/logincmd", "cmd/internal/cli/setupcmd", "cmd/internal/cli/statecmd", "cmd/internal/cli/tapecmd", "cmd/internal/cli/toolscmd"},
	{"cmd/internal/cli/plugincmd", "cmd/internal/cli/review"},
	{"cmd/internal/cli/report", "cmd/internal/cli/terminal", "cmd/internal/cli/registrycmd"},
	{"cmd/internal/cli/globals"},
	{"cmd/internal/cli/process", "cmd/internal/cli/screen"},
	{"console"},
	{"api", "mcp", "mcp/authorize"},
	{"mcp/internal/handover", "mcp/internal/message", "mcp/internal/outbox"},
	{"batch", "exposition", "export"},
	{"admin/agents", "admin/registries"},
	{"admin/registries/internal/distribution"},
	{"admin/registries/internal/fetch", "admin/registries/internal/npm"},
	{"admin", "recording", "fleet"},
	{"fleet/internal/placement", "fleet/internal/tunnel", "fleet/local"},
	{"fleet/internal/council", "fleet/internal/depot", "fleet/internal/directory", "fleet/internal/hop", "fleet/internal/journal", "fleet/internal/lease", "fleet/internal/share"},
	{"fleet/internal/surplus"},
	{"fleet/internal/bus", "fleet/internal/coordinator", "fleet/internal/failpoint", "fleet/internal/gate", "fleet/internal/testnats", "fleet/fleetpb"},
	{"admin/internal/backup", "fleet/identity"},
	{"."},
	{"internal/engine"},
	{"internal/reload"},
	{"internal/testbuilder"},
	{"internal/generation"},
	{"internal/admission", "internal/answer", "internal/changeset", "develop"},
	{"internal/privilege"},
	{"internal/confinement", "internal/roots", "internal/trust", "internal/dispatch", "internal/testprogram"},
	{"internal/stage"},
	{"internal/claim"},
	{"internal/call"},
	{"internal/config", "internal/help"},
	{"internal/config/internal/diagnose"},
	{"internal/config/internal/schema"},
	{"internal/policy", "internal/registry", "internal/state", "internal/supervisor", "internal/shim", "internal/repository", "router"},
	{"internal/state/records", "internal/audit", "internal/adaptive", "internal/shim/wire", "internal/watch", "agent", "scaffold"},
	{"internal/artifact", "internal/build", "internal/control", "internal/hook", "internal/paths", "internal/principal", "internal/quota", "internal/recorder", "internal/rollout", "internal/scheduler", "internal/manifest", "internal/telemetry"},
	{"agent/internal/agentfile", "internal/habit", "internal/ownfile", "internal/scratch", "internal/testlines"},
	{"internal/nodename"},
	{"internal/lazyregexp"},
}

const module = "toolhost.dev/host"

func layerOf(pkg string) int {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if name == "" {
		name = "."
	}
	return slices.IndexFunc(layers, func(row []string) bool { return slices.Contains(row, name) })
}

// TestImportsRunDown checks that packages import only packages of lower layers. It also checks that package host itself
// imports only the engine, the router and sdk packages.
func TestImportsRunDown(t *testing.T) {
	arrows := 0
	for _, p := range listed(t) {
		if !under(p.ImportPath, module) {
			continue
		}
		at := layerOf(p.ImportPath)
		if at < 0 {
			t.Errorf("%s is in no layer: add it to the table in layout_test.go", p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			if !under(i, module) {
				continue
			}
			arrows++
			if to := layerOf(i); to <= at {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports must run down", p.ImportPath, at, i, to)
			}
			if p.ImportPath == module && i != module+"/internal/engine" && i != module+"/router" {
				t.Errorf("the facade imports %s: only engine, router and sdk/tool are allowed", i)
			}
		}
	}
	if arrows < 100 {
		t.Errorf("only %d imports were checked", arrows)
	}
}

// maxFiles is the maximum number of files per package, without tests. maxLines is the maximum number of lines per
// function.
const (
	maxFiles = 16
	maxLines = 60
)

// Exceptions from the size limits, with reasons.
var (
	largePackages = map[string]string{
		"internal/config": "the decoder, the schema and the diagnostics refer to each other",
		"internal/stage":  "one file for each stage",
	}
	longFunctions = map[string]string{
		"../shellscript.git":           "one case for each subcommand of git",
		"cmd/internal/testserver.call": "one case for each tool of the test server",
		"router.flag":                  "one case for each form of a flag",
		"router.splitQuoted":           "a scanner with one case for each state",
		"router.unquote":               "a scanner with one case for each state",
	}
)

// TestSizes checks the number of files per package and of lines per function, in this module and in the libraries.
func TestSizes(t *testing.T) {
	files := make(map[string]int)
	set := token.NewFileSet()
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || path == "scaffold/files") {
			if d != nil && d.IsDir() && err == nil {
				return fs.SkipDir
			}
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		files[dir]++
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
			name := dir + "." + fn.Name.Name
			if _, known := longFunctions[name]; lines > maxLines && !known {
				t.Errorf("%s: %s has %d lines, more than %d: split it, or give a reason in layout_test.go", set.Position(fn.Pos()), name, lines, maxLines)
			}
		}
		return nil
	}
	for _, root := range []string{".", "../branch", "../sandbox", "../shellscript"} {
		if err := filepath.WalkDir(root, visit); err != nil {
			t.Fatal(err)
		}
	}
	for dir, n := range files {
		if _, known := largePackages[dir]; n > maxFiles && !known {
			t.Errorf("%s has %d files, more than %d: split it, or give a reason in layout_test.go", dir, n, maxFiles)
		}
	}
	if len(files) < 20 {
		t.Errorf("only %d packages were checked", len(files))
	}
}

// named lists what the libraries name after toolhost apart from messages: the program that the module sandbox builds,
// and names of files, cgroups, refs and mounts; and a setting of git.
var named = strings.NewReplacer("toolhost-sandbox", "", ".toolhost-", "", "toolhost-pids-", "", "toolhost-host", "", "toolhost-%s-%d-%d", "", "toolhost-branch-", "", "refs/toolhost/", "", "bare = true", "")

// ofProduct matches what a message of a library cannot know: toolhost, its flags with a value, the blocks and
// attributes of its configuration, and its Makefile.
var ofProduct = regexp.MustCompile(`toolhost|--[a-z][a-z-]* [A-Z]{2,}|\b[a-z_]+ \{(\s|\\n)|\b[a-z_]+ = (true|false|\\?"|\[)|\bmake [a-z]+$`)

// TestLibrariesNameNoProduct checks that no message of a library names toolhost or a setting of it. The host adds what
// its users can do.
func TestLibrariesNameNoProduct(t *testing.T) {
	for _, library := range []string{"branch", "sandbox", "shellscript"} {
		t.Run(library, func(t *testing.T) {
			texts := 0
			err := filepath.WalkDir("../"+library, func(path string, d fs.DirEntry, err error) error {
				if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/internal/test") {
					return err
				}
				set := token.NewFileSet()
				file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				ast.Inspect(file, func(n ast.Node) bool {
					if _, imported := n.(*ast.ImportSpec); imported {
						return false
					}
					l, is := n.(*ast.BasicLit)
					if !is || l.Kind != token.STRING {
						return true
					}
					if texts++; ofProduct.MatchString(named.Replace(strings.Trim(l.Value, "\"`"))) {
						t.Errorf("%s: %s", set.Position(l.Pos()), l.Value)
					}
					return true
				})
				return nil
			})
			if err != nil || texts < 100 {
				t.Errorf("%d texts were read: %v", texts, err)
			}
		})
	}
}
