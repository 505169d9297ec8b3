package host_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/testprogram"
)

// maxPackages is the maximum number of packages of host/internal. Packages below another package belong to it.
const maxPackages = 45

// packageRow matches a row of the table of packages in ARCHITECTURE.md.
var packageRow = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| \\S.* \\|$")

// TestPackages checks that the table in ARCHITECTURE.md names exactly the packages of host/internal, and that they are
// not more than maxPackages.
func TestPackages(t *testing.T) {
	root, err := testprogram.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Packages of host/internal\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := make(map[string]bool)
	for _, row := range packageRow.FindAllStringSubmatch(section, -1) {
		if rows[row[1]] {
			t.Errorf("ARCHITECTURE.md has two rows for %s", row[1])
		}
		rows[row[1]] = true
	}
	packages, err := internalPackages()
	if err != nil {
		t.Fatal(err)
	}
	above := make(map[string]bool)
	for _, name := range packages {
		if !rows[name] {
			t.Errorf("ARCHITECTURE.md has no row for host/internal/%s: add one that says what is inside", name)
		}
		delete(rows, name)
		first, _, _ := strings.Cut(name, "/")
		above[first] = true
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("ARCHITECTURE.md has a row for host/internal/%s, which does not exist: remove it", name)
	}
	if len(above) > maxPackages {
		t.Errorf("host/internal has %d packages, more than %d: put what belongs together into one", len(above), maxPackages)
	}
}

// internalPackages returns the directories below host/internal that have Go files, relative to it.
func internalPackages() (out []string, err error) {
	files := os.DirFS("internal")
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return fs.SkipDir
		}
		if found, err := fs.Glob(files, path+"/*.go"); err != nil || len(found) > 0 {
			out = append(out, path)
			return err
		}
		return nil
	})
	return out, err
}
