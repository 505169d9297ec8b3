package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/manifest"
)

// bundledDir creates a directory with bundled plugins. Each plugin has the given manifest and a binary.
func bundledDir(t *testing.T, manifests map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range manifests {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const reader = `{"name": "reader", "version": "1.0.0", "binary": "reader", "bundled": {"default": 2, "profile": {"roots": "read-only"}}}`

// TestBundledDefault checks which plugins the default configuration contains, and in which order. A bundled plugin is
// in the default configuration if its manifest sets a position. A plugin with an invalid manifest is also in the
// default configuration, but must not run.
func TestBundledDefault(t *testing.T) {
	dir := bundledDir(t, map[string]string{
		"reader": reader,
		"runner": `{"name": "runner", "version": "1.0.0", "binary": "runner", "bundled": {"default": 1, "profile": {"exec": true}}}`,
		"off":    `{"name": "off", "version": "1.0.0", "binary": "off", "bundled": {"profile": {}}}`,
		"second": `{"name": "second", "version": "1.0.0", "binary": "second", "bundled": {"default": 2, "profile": {}}}`,
		"bare":   "",
		"broken": "{\n  \"name\": \"broken\",\n  \"release\": \"1.0.0\"\n}\n",
	})
	c, err := config.Load("", config.Environment{BundledDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range c.Plugins {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"runner", "reader", "second", "broken"}) {
		t.Errorf("the plugins are %q", names)
	}
	if p := c.Plugin("runner").Profile; p != (manifest.Profile{Exec: true}) {
		t.Errorf("%+v", p)
	}
	if got, want := c.Plugin("broken").Missing, filepath.Join(dir, "broken.json")+`:3: unknown key "release"; correct or remove the key`; got != want || len(c.LeftOut) > 0 {
		t.Errorf("%q, want %q, left out %q", got, want, c.LeftOut)
	}
}

// TestProfileOfProgram checks that a plugin has the profile of the bundled plugin whose program it runs, regardless of
// its label. It also checks that manifests outside the bundled directory are ignored.
func TestProfileOfProgram(t *testing.T) {
	dir, workspace := bundledDir(t, map[string]string{"reader": reader, "bare": "", "broken": "{"}), bundledDir(t, map[string]string{
		"evil": `{"name": "evil", "version": "1.0.0", "binary": "evil", "bundled": {"default": 2, "profile": {"exec": true}}}`,
	})
	t.Chdir(workspace)
	file := filepath.Join(workspace, "toolhost.hcl")
	text := `plugin "reader" { path = "evil" }
plugin "other" { path = "` + filepath.Join(dir, "reader") + `" }
plugin "evil" { path = "evil" }
plugin "bare" {}
plugin "broken" { optional = true }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bundled := range []string{dir, ""} {
		if bundled == "" { // an unknown directory must not mean the current directory
			if err := os.WriteFile(file, []byte(`plugin "evil" { path = "evil" }`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := config.Load(file, config.Environment{BundledDir: bundled})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Plugins {
			if want := map[string]string{"other": "read-only"}[p.Name]; p.Profile != (manifest.Profile{Roots: want}) {
				t.Errorf("%s: %+v", p.Name, p.Profile)
			}
			if broken := strings.Contains(p.Missing, "broken.json:1: unexpected EOF"); broken != (p.Name == "broken") {
				t.Errorf("%s: %q", p.Name, p.Missing)
			}
		}
		w := c.Warnings()
		switch {
		case bundled == "" && len(w) == 0:
		case bundled == dir && len(w) == 1 && w[0].Line == 1 && strings.Contains(w[0].Detail, "files in the roots and nothing else"):
		default:
			t.Errorf("%q: %+v", bundled, w)
		}
	}
	if c, err := config.Load("", config.Environment{}); err != nil || len(c.Plugins) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestSameProfile checks that a changed manifest makes the configuration and the process of the plugin count as
// changed.
func TestSameProfile(t *testing.T) {
	dir := bundledDir(t, map[string]string{"reader": reader})
	load := func() *config.Config {
		t.Helper()
		c, err := config.Load("", config.Environment{BundledDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := load()
	if !before.Same(load()) || !before.SameProcess(load(), "reader") {
		t.Error("the same manifest is a change")
	}
	if err := os.WriteFile(filepath.Join(dir, "reader.json"), []byte(strings.Replace(reader, "read-only", "none", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if before.Same(load()) || before.SameProcess(load(), "reader") {
		t.Error("another profile is no change")
	}
}

func TestNewPluginProfile(t *testing.T) {
	dir := bundledDir(t, map[string]string{"reader": reader, "broken": "{"})
	if p, err := config.NewPlugin("x", filepath.Join(dir, "reader"), dir); err != nil || p.Profile.Roots != "read-only" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := config.NewPlugin("reader", "/x", dir); err != nil || p.Profile != (manifest.Profile{}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := config.NewPlugin("broken", filepath.Join(dir, "broken"), dir); err == nil || !strings.Contains(err.Error(), "broken.json:1:") {
		t.Error(err)
	}
}

// TestBundledAdded checks that a file can add plugins to the bundled plugins. It also checks the settings that turn
// bundled plugins off.
func TestBundledAdded(t *testing.T) {
	const shell = `{"name": "shell", "version": "1.0.0", "binary": "shell", "bundled": {"default": 1, "profile": {"exec": true}}}`
	dir := bundledDir(t, map[string]string{
		"reader": reader, "shell": shell,
		"mcp": `{"name": "mcp", "version": "1.0.0", "binary": "mcp", "bundled": {"profile": {}}}`,
	})
	other := filepath.Join(bundledDir(t, map[string]string{"mine": ""}), "mine")
	for _, tc := range []struct{ text, plugins, off string }{
		{"", "shell+ reader+", ""},
		{"permissions {\n  policy = \"careful\"\n}", "shell+ reader+", ""},
		{"field \"notes\" {\n  mcp {\n    url = \"https://x\"\n  }\n}", "shell+ reader+ notes", ""},
		{`plugin "reader" {}`, "reader shell+", ""},
		{`plugin "mine" { path = "` + other + `" }`, "mine shell+ reader+", ""},
		{`plugin "reader" { path = "` + other + `" }`, "reader shell+", ""},
		{`plugin "again" { path = "` + filepath.Join(dir, "reader") + `" }`, "again shell+", ""},
		{"plugin \"again\" {\n  path = \"" + filepath.Join(dir, "reader") + "\"\n  field = \"again\"\n}", "again shell+ reader+", ""},
		{`bundled = true`, "shell+ reader+", ""},
		{`bundled = false`, "", "shell reader"},
		{"bundled = false\nplugin \"reader\" {}", "reader", "shell"},
		{"plugin \"shell\" {\n  enabled = false\n  sandbox {\n    network = true\n  }\n}", "reader+", "shell"},
		{"plugin \"shell\" {\n  enabled = true\n}", "shell reader+", ""},
		{"variable \"on\" {\n  default = false\n}\nbundled = var.on", "", "shell reader"},
		{"field \"reader\" {\n  mcp {\n    url = \"https://x\"\n  }\n}", "shell+ reader", "reader"},
	} {
		file := filepath.Join(t.TempDir(), "toolhost.hcl")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, config.Environment{BundledDir: dir})
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		var got []string
		for _, p := range c.Plugins {
			name := p.Name
			if p.Added {
				name += "+"
			}
			got = append(got, name)
		}
		if g := strings.Join(got, " "); g != tc.plugins || strings.Join(c.Off, " ") != tc.off {
			t.Errorf("%s\nplugins %q, want %q; off %q, want %q", tc.text, g, tc.plugins, c.Off, tc.off)
		}
		if files := c.Files(); len(files) != 1 || files[0] != file || len(c.Texts()) != 1 {
			t.Errorf("%s: the files are %q", tc.text, files)
		}
		same := config.Environment{BundledDir: dir, LookupEnv: func(string) (string, bool) { return "", false }}
		again, err := config.Parse([]byte(c.Tree(config.TreeOptions{}).HCL()), "again", same)
		if err != nil || len(again.Plugins) != len(c.Plugins) || !slices.Equal(again.Off, c.Off) {
			t.Errorf("%s: the tree does not mean the same: %v\n%s", tc.text, err, c.Tree(config.TreeOptions{}).HCL())
		}
	}
}

// TestBundledProblems checks the messages about plugins that are turned off.
func TestBundledProblems(t *testing.T) {
	dir := bundledDir(t, map[string]string{"reader": reader})
	load := func(text string) (*config.Config, error) {
		return config.Parse([]byte(text), "x.hcl", config.Environment{BundledDir: dir})
	}
	if _, err := load("bundled = false\nplugin \"a\" {\n  path = \"/x\"\n  depends_on = [\"reader\"]\n}"); err == nil || !strings.Contains(err.Error(), "x.hcl:4:16: Plugin \"a\" depends on \"reader\", which is turned off") {
		t.Error(err)
	}
	if _, err := load("plugin \"a\" {\n  path = \"/x\"\n  depends_on = [\"reader\"]\n}"); err != nil {
		t.Error(err)
	}
	c, err := load("field \"reader\" {\n  mcp {\n    url = \"https://x\"\n  }\n}")
	if err != nil || len(c.Warnings()) != 1 || !strings.Contains(c.Warnings()[0].Summary, "has the name of a bundled plugin") {
		t.Errorf("%v, %+v", err, c.Warnings())
	}
}

// TestNarrowingOfBundled checks that an untrusted project file can turn off bundled plugins. The file must not turn on
// bundled plugins or turn off other plugins.
func TestNarrowingOfBundled(t *testing.T) {
	dir := bundledDir(t, map[string]string{"reader": reader, "writer": strings.ReplaceAll(reader, "reader", "writer")})
	for _, tc := range []struct {
		operator, project, plugins string
		complete                   bool
	}{
		{"", "bundled = false", "", true},
		{"", "plugin \"reader\" {\n  enabled = false\n}", "writer", true},
		{"", "plugin \"reader\" {}", "reader writer", false},
		{"", "plugin \"reader\" {\n  enabled = false\n  path = \"/x\"\n}", "writer", false},
		{"", "bundled = false\nplugin \"reader\" {}", "reader", false},
		{"bundled = false", "bundled = true", "", false},
		{"bundled = false", "plugin \"reader\" {\n  enabled = true\n}", "", false},
		{"plugin \"reader\" {}", "bundled = false", "reader", true},
		{"plugin \"guard\" {\n  path = \"/x\"\n}", "plugin \"guard\" {\n  enabled = false\n}", "guard reader writer", true},
	} {
		base, err := config.Parse([]byte(tc.operator), "operator.hcl", config.Environment{BundledDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "toolhost.hcl")
		if err := os.WriteFile(file, []byte(tc.project), 0o600); err != nil {
			t.Fatal(err)
		}
		n := config.ReadNarrowing(file)
		n.Apply(base)
		var got []string
		for _, p := range base.Plugins {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != tc.plugins || n.Complete != tc.complete {
			t.Errorf("%q narrowed by %q: plugins %q, complete %v", tc.operator, tc.project, got, n.Complete)
		}
	}
}
