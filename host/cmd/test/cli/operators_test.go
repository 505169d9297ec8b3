package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestExamplesForOperators checks that the configurations in the pages of docs/operators are valid and that their own
// tests pass.
func TestExamplesForOperators(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../../docs/operators/*.md")
	hosttest.Must(t, err)
	var blocks []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		hosttest.Must(t, err)
		blocks = append(blocks, strings.Split(string(text), "```hcl\n")[1:]...)
	}
	if len(blocks) < 20 {
		t.Fatalf("%d pages in docs/operators have only %d examples", len(pages), len(blocks))
	}
	toolhost := hosttest.NewResident(t)
	for _, b := range blocks {
		example, _, _ := strings.Cut(b, "```")
		example = strings.ReplaceAll(example, "/usr/local/bin/guard", "/bin/true") // a program that every machine has
		dir := t.TempDir()
		path := filepath.Join(dir, "toolhost.hcl")
		// In an empty state directory no plugin is known, so names of fields that an example lacks are not checked.
		hosttest.Must(t, os.Mkdir(dir+".state", 0o700))
		if !strings.Contains(example, "plugin \"") {
			example += "plugin \"read\" {}\nplugin \"edit\" {}\nplugin \"bash\" {}\n"
		}
		if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		commands := [][]string{{"config", "validate"}}
		if strings.Contains(example, "test \"") {
			commands = append(commands, []string{"policy", "test"})
		}
		for _, args := range commands {
			stdout, stderr, status := toolhost.Toolhost(t, dir, append([]string{"--config", path, "--workspace", dir}, args...)...)
			if out := stdout + stderr; status != 0 || strings.Contains(out, "toolhost: ") {
				t.Errorf("%v: exit status %d\n%s\n%s", args, status, out, example)
			}
		}
	}
}
