package manifest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/manifest"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name":"a","version":"1.0.0","binary":"bin/a","needs":{"network":true,"read":["."]}}`: "",
		`{"name":"A","version":"1.0.0","binary":"a"}`:                                           "name \"A\" is not valid",
		`{"name":"a","version":"one","binary":"a"}`:                                             "major.minor.patch",
		`{"name":"a","version":"1.0.0"}`:                                                        "binary is not set",
		`{"name":"a","version":"1.0.0","binary":"../../bin/sh"}`:                                "is outside of the plugin",
		`{"name":"a","binaries":"x"}`:                                                           "binaries",
		`{`:                                                                                     "unexpected EOF",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifest.File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := manifest.Read(dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := manifest.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "toolhost plugin new") {
		t.Error(err)
	}
}

// TestLines checks the line number in the message about each kind of error.
func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n  \"name\": 7\n}":                                                  ":2: json: cannot unmarshal number",
		"{\n  \"name\" \"a\"\n}":                                               ":2: invalid character",
		"{\n\n  \"bundles\": {}\n}":                                            ":3: unknown key \"bundles\"; correct or remove the key",
		"{\n  \"name\": \"a\",\n  \"version\": \"1\"":                          ":3: unexpected EOF",
		"{\n  \"name\": \"a\",\n  \"version\": \"one\", \"binary\": \"a\"\n}":  ":3: the version \"one\"",
		"{\"name\": \"a\", \"version\": \"1.0.0\", \"binary\": \"a\"}\n\n{}\n": ":3: unexpected text after the manifest",
		"{\"name\": \"a\", \"version\": \"1.0.0\",\n\"binary\": \"a\",\n\"bundled\": {\"profile\": {\n\"roots\": \"all\"}}}": ":4: invalid roots \"all\"",
	} {
		path := filepath.Join(t.TempDir(), manifest.File)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := manifest.Read(filepath.Dir(path)); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestDirectory checks that a manifest is read only from the directory of the bundled plugins.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a.json":     `{"name": "a", "version": "1.0.0", "binary": "a", "bundled": {"default": 1, "profile": {"roots": "none"}}}`,
		"b.json":     `{"name": "a", "version": "1.0.0", "binary": "a"}`,
		"c.json":     `{"name": "c", "version": "1.0.0", "binary": "a"}`,
		"Other.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := manifest.OpenDirectory(dir).Bundled("a"); err != nil || b != (manifest.Bundled{Default: 1, Profile: manifest.Profile{Roots: "none"}}) {
		t.Errorf("%+v, %v", b, err)
	}
	for _, at := range [][2]string{{dir, "c"}, {dir, "none"}, {"", "a"}, {dir + "/sub", "../a"}} {
		if b, err := manifest.OpenDirectory(at[0]).Bundled(at[1]); err != nil || b != (manifest.Bundled{}) {
			t.Errorf("%q: %+v, %v", at, b, err)
		}
	}
	if _, err := manifest.OpenDirectory(dir).Bundled("b"); err == nil || !strings.Contains(err.Error(), `b.json:1: the manifest belongs to plugin "a"`) {
		t.Error(err)
	}
	if names := manifest.OpenDirectory(dir).Names(); !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("%q", names)
	}
	if names := manifest.OpenDirectory(dir + "/none").Names(); names != nil {
		t.Errorf("%q", names)
	}
}

func TestBlock(t *testing.T) {
	t.Setenv("KIT", "${x} & %{y}")
	m := manifest.Manifest{Name: "a", Binary: "bin/a", Needs: manifest.Needs{Network: true, Read: []string{"data", "/etc/x"}, Env: []string{"KIT", "KIT_NOT_SET"}}}
	want := `plugin "a" {
  path = "/d/bin/a"
  env = {
    KIT = "$${x} & %%{y}"
  }
  sandbox {
    network = true
    read = ["/d/data", "/etc/x"]
  }
}
`
	if got := m.Block("/d"); got != want {
		t.Errorf("%s", got)
	}
	// A script may read the packages of its interpreter, and receives the variables that contain their paths.
	t.Setenv("PYTHONPATH", "/srv/packages:relative:/usr/lib/python3")
	t.Setenv("LD_LIBRARY_PATH", "")
	m = manifest.Manifest{Name: "a", Binary: "main.py", Runtime: "python"}
	if got := m.Block("/d"); !strings.Contains(got, "PYTHONPATH = ") || !strings.Contains(got, `read = ["/srv/packages"`) || strings.Contains(got, "relative\"]") || strings.Contains(got, "LD_LIBRARY_PATH") {
		t.Errorf("%s", got)
	}
}

func TestInterpreter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	for text, want := range map[string]string{
		"#!/usr/bin/env python3\nimport os\n": "python3", "#! /usr/bin/node --no-warnings": "node", "#!/usr/bin/env": "env",
		"#!": "", "#!\npython": "", "\x7fELF": "", "": "", "# python": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := manifest.Interpreter(path); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := manifest.Interpreter(path + "-not-there"); got != "" {
		t.Errorf("%q", got)
	}
}
