package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/test/hosttest"
)

// TestExamplesForOperators checks that the configurations in docs/operators.md are valid and that their own tests pass.
func TestExamplesForOperators(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```hcl\n")[1:]
	if len(blocks) < 2 {
		t.Fatal("docs/operators.md has no examples")
	}
	for _, b := range blocks {
		example, _, _ := strings.Cut(b, "```")
		example = strings.ReplaceAll(example, "/usr/local/bin/guard", "/bin/true") // a program that every machine has
		dir := t.TempDir()
		path := filepath.Join(dir, "toolhost.hcl")
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
			c := exec.Command(filepath.Join(hosttest.Bin, "trusting", "toolhost"), append([]string{"--config", path, "--workspace", dir, "--state", dir + ".state"}, args...)...)
			if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "toolhost: ") {
				t.Errorf("%v: %v\n%s\n%s", args, err, out, example)
			}
		}
	}
}
