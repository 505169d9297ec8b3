package project

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOpen checks the modules and plugins that Open finds in this repository.
func TestOpen(t *testing.T) {
	t.Parallel()
	p, err := Open(".")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(p.Modules, "plugins/read") || !slices.Contains(p.Plugins, "read") || !slices.Contains(p.Outside, "tools") || slices.Contains(p.Outside, "host") {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat(filepath.Join(p.Root, "go.work")); err != nil {
		t.Error(err)
	}
	if v, err := p.Version(); err != nil || !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(v) {
		t.Errorf("version %q, %v", v, err)
	}
	if pkg, err := p.BuildPackage(); err != nil || pkg == "" {
		t.Errorf("%q, %v", pkg, err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory outside of the repository is accepted")
	}
}

// TestLicense checks that the license of each published module equals the license of the repository.
func TestLicense(t *testing.T) {
	t.Parallel()
	p, err := Open(".")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(p.Path("LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"sdk", "host"} {
		if got, err := os.ReadFile(p.Path(m + "/LICENSE")); err != nil || string(got) != string(want) {
			t.Errorf("%s/LICENSE is not LICENSE, %v", m, err)
		}
	}
}

// TestFind checks that the version and the build package are found in the sources of the host. A missing version and a
// second version are errors.
func TestFind(t *testing.T) {
	t.Parallel()
	p := &Project{Root: t.TempDir()}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(p.Path(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.Path(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Version(); err == nil {
		t.Error("a version without sources")
	}
	write("host/host.go", "package host\n\n// Version is the release.\nconst Version = build.Version\n")
	write("host/internal/build/build.go", "package build\n\nvar commit, committed string\n\nconst (\n\tOther   = \"x\"\n\tVersion = \"1.2.3\"\n)\n")
	if v, err := p.Version(); err != nil || v != "1.2.3" {
		t.Errorf("%q, %v", v, err)
	}
	if pkg, err := p.BuildPackage(); err != nil || pkg != "toolhost.dev/host/internal/build" {
		t.Errorf("%q, %v", pkg, err)
	}
	write("host/host.go", "package host\n\nconst Version = \"1.2.4\"\n")
	if _, err := p.Version(); err == nil {
		t.Error("two versions are accepted")
	}
}

// TestCheckPlugins checks that each mismatch between go.work, the directories and the manifests is reported.
func TestCheckPlugins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"agree", nil, ""},
		{"not in go.work", map[string]string{"go.work": "go 1.26.0\n"}, "plugins/a: not in go.work; run go work use ./plugins/a"},
		{"no manifest", map[string]string{"plugins/b/go.mod": "module b\n"}, "plugins/b: no toolhost-plugin.json"},
		{"other name", map[string]string{"plugins/a/toolhost-plugin.json": `{"name": "b", "version": "1.0.0"}`}, `the name is "b"`},
		{"other version", map[string]string{"plugins/a/toolhost-plugin.json": `{"name": "a", "version": "2.0.0"}`}, `the version is "2.0.0", but the sources have "1.0.0"`},
		{"version in a literal", map[string]string{"plugins/a/a/a.go": "package a\n\nvar P = sdk.Plugin{Name: \"a\", Version: \"3.0.0\"}\n"}, `the sources have "3.0.0"`},
		{"broken", map[string]string{"plugins/a/toolhost-plugin.json": `{`}, "plugins/a/toolhost-plugin.json: unexpected end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			files := map[string]string{
				"go.work": "go 1.26.0\n\nuse ./plugins/a\n", "plugins/a/go.mod": "module a\n",
				"plugins/a/a/a.go": "package a\n\nconst Version = \"1.0.0\"\n", "plugins/a/toolhost-plugin.json": `{"name": "a", "version": "1.0.0"}`,
			}
			maps.Copy(files, c.files)
			for name, text := range files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Open(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.CheckPlugins(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestTable checks the format of the table. It also checks that the host has the variable that the linker sets.
func TestTable(t *testing.T) {
	t.Parallel()
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got, want := Table(map[string][]byte{"b": nil, "a": {}}), "a:0:"+empty+",b:0:"+empty; got != want {
		t.Errorf("%s", got)
	}
	p, err := Open(".")
	if err != nil {
		t.Fatal(err)
	}
	pkg, name, _ := strings.Cut(strings.TrimPrefix(BundledTable, "toolhost.dev/"), ".")
	files, err := filepath.Glob(p.Path(pkg + "/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "\nvar "+name+" string\n") {
			return
		}
	}
	t.Errorf("no file of %s has var %s string", pkg, name)
}

// TestSDK checks that the sources of the SDK contain what a plugin needs, and neither tests nor the kits for other
// languages.
func TestSDK(t *testing.T) {
	p, err := Open(".")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := p.SDK()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sdk/go.mod", "sdk/go.sum", "sdk/plugin.go", "sdk/LICENSE", "sdk/statedb/go.mod", "sdk/statedb/go.sum", "sdk/tooltest/tooltest.go", "sdk/tooltest/conformance/life.go"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "sdk/node/") || strings.HasPrefix(path, "sdk/python/") {
			t.Errorf("%s is no source of a plugin", path)
		}
	}
}
