package scaffold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"toolhost.dev/host/scaffold"
)

// TestNewModules checks that every valid plugin name results in a module path that the go command accepts.
func TestNewModules(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"greeter", "a.", "a..b", "con", "x-1_y.z"} {
		dir := filepath.Join(t.TempDir(), "made")
		if _, err := scaffold.New(scaffold.Options{Name: name, Lang: "go", Dir: dir, SDK: "../../sdk"}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if path := modfile.ModulePath(b); module.CheckPath(path) != nil || name == "greeter" && path != "example.com/greeter" {
			t.Errorf("%s: the module %q", name, path)
		}
	}
}

func TestNewWhereItCannotBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/nowhere/at/all", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dangling", "file", "."} {
		_, err := scaffold.New(scaffold.Options{Name: "a", Lang: "go", Dir: filepath.Join(dir, name), SDK: "../../sdk"})
		if err == nil || !strings.Contains(err.Error(), "with --dir") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
}
