//go:build docs

package dist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// TestProxy checks that other projects can use the modules of a release through its module proxy.
func TestProxy(t *testing.T) {
	t.Parallel()
	p, err := project.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &release{Project: p, out: dir}
	if err := r.describe(); err != nil {
		t.Fatal(err)
	}
	if err := r.proxy(dir); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"sdk", "shellscript", "sandbox", "branch", "host", "host/admin/registries", "plugins/read"} {
		b, err := os.ReadFile(filepath.Join(dir, "toolhost.dev", m, "@v", "v"+r.version+".mod"))
		if err != nil || strings.Contains(string(b), "replace") || strings.Contains(string(b), "toolhost.dev/sdk v"+r.version) != (m != "sdk" && m != "shellscript") {
			t.Errorf("%s, %v:\n%s", m, err, b)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "toolhost.dev/sdk/@v", "v"+r.version+".mod"))
	if err != nil || strings.Contains(string(b), "sqlite") {
		t.Errorf("the SDK puts SQLite into the module graph of each plugin: %v\n%s", err, b)
	}
	if err := TryProxy(p, dir); err != nil {
		t.Error(err)
	}
}

func TestPublishedMod(t *testing.T) {
	t.Parallel()
	got, err := publishedMod([]byte("module toolhost.dev/a\n\ngo 1.26.0\n\nrequire (\n\texample.com/x v1.0.0\n\ttoolhost.dev/sdk v0.0.0\n)\n\nreplace toolhost.dev/sdk => ../sdk\n"), "v1.2.3")
	if want := "module toolhost.dev/a\n\ngo 1.26.0\n\nrequire (\n\texample.com/x v1.0.0\n\ttoolhost.dev/sdk v1.2.3\n)\n"; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := publishedMod([]byte("module a\n\nreplace example.com/x => ../x\n"), "v1.2.3"); err == nil || !strings.Contains(err.Error(), "replaces example.com/x") {
		t.Error(err)
	}
}
