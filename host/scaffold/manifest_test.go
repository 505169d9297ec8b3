package scaffold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/scaffold"
)

func TestReadManifest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name":"a","version":"1.0.0","binary":"bin/a","needs":{"network":true,"read":["."]}}`: "",
		`{"name":"A","version":"1.0.0","binary":"a"}`:                                           "name \"A\" is not valid",
		`{"name":"a","version":"one","binary":"a"}`:                                             "major.minor.patch",
		`{"name":"a","version":"1.0.0"}`:                                                        "binary is not set",
		`{"name":"a","version":"1.0.0","binary":"../../bin/sh"}`:                                "leads out",
		`{"name":"a","binaries":"x"}`:                                                           "binaries",
		`{`:                                                                                     "unexpected EOF",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, scaffold.ManifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := scaffold.ReadManifest(dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := scaffold.ReadManifest(t.TempDir()); err == nil || !strings.Contains(err.Error(), "toolhost plugin new") {
		t.Error(err)
	}
}

func TestBlock(t *testing.T) {
	t.Setenv("KIT", "${x} & %{y}")
	m := scaffold.Manifest{Name: "a", Binary: "bin/a", Needs: scaffold.Needs{Network: true, Read: []string{"data", "/etc/x"}, Env: []string{"KIT", "KIT_NOT_SET"}}}
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
}
