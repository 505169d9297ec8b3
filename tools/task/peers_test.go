package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"toolhost.dev/tools/dist"
)

// TestInstalledIsIgnored checks that the go command ignores each directory in which "make test" or a benchmark installs
// programs. Otherwise it fails if a directory disappears while it looks for packages, because a check runs beside the
// installation.
func TestInstalledIsIgnored(t *testing.T) {
	t.Parallel()
	const root = "../.."
	for _, dir := range []string{"bench/agents/node_modules", "bench/mounts/packages", "bench/peers", consoleDir + "/node_modules", dist.NodeModules} {
		module, rel, _ := strings.Cut(dir, "/")
		path := filepath.Join(root, module, "go.mod")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := modfile.Parse(path, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(f.Ignore, func(i *modfile.Ignore) bool { return i.Path == "./"+rel }) {
			t.Errorf("%s does not ignore ./%s", path, rel)
		}
	}
}
