package calls

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// lossTable is a row of the table of losses in the guide of guards: what happens to a file, the commands that are asked
// about, and those that are not.
var lossTable = regexp.MustCompile(`(?m)^\| ([a-z, ]+) \| (.*) ?\| (.*) \|$`)

// codeSpan is a command in a cell of the table.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// TestTableOfLosses runs each command in the table of losses in docs/operators/guards.md, with the real programs. A
// command that is said to be asked about must not change the file, and any other command must lose it.
func TestTableOfLosses(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	guide, err := os.ReadFile("../../../../docs/operators/guards.md")
	hosttest.Must(t, err)
	_, losses, _ := strings.Cut(string(guide), "## Losses\n")
	losses, _, _ = strings.Cut(losses, "\n## ")
	r, runs := hosttest.NewResident(t), 0
	for _, row := range lossTable.FindAllStringSubmatch(losses, -1) {
		for i, cell := range row[2:] {
			for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
				if missing := missingProgram(span[1]); missing != "" {
					t.Logf("%s: there is no %s", span[1], missing)
					continue
				}
				runs++
				loses(t, r, span[1], i == 0)
			}
		}
	}
	if runs < 20 {
		t.Errorf("only %d commands ran", runs)
	}
}

// missingProgram returns the first program of a command that is not installed, or "".
func missingProgram(command string) string {
	for _, name := range []string{"python3", "perl", "patch", "git", "rename.ul", "rsync"} {
		if _, err := exec.LookPath(name); err != nil && strings.Contains(command, name) {
			return name
		}
	}
	return ""
}

// loses runs a command in a new repository with the file "notes", which git does not know. It checks that the command
// is asked about, or that it loses the text of the file.
func loses(t *testing.T, r *hosttest.Resident, command string, asked bool) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	for name, text := range map[string]string{
		"toolhost.hcl": "plugin \"bash\" {}\npermissions {\n  policy = \"careful\"\n}\n", "notes": "the work of a week\n", "new": "new\n", "known": "known\n",
		"change": "1c1\n< the work of a week\n---\n> x\n",
	} {
		if strings.Contains(command, "-R") && name == "change" {
			text = "1c1\n< x\n---\n> the work of a week\n"
		}
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "known"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	stdout, stderr, status := r.Toolhost(t, dir, "run", command)
	kept := false
	for _, name := range []string{"notes", "other"} {
		b, _ := os.ReadFile(filepath.Join(dir, name)) // ignore the error: the file can be lost
		kept = kept || strings.Contains(string(b), "a week")
	}
	refused := strings.Contains(stdout+stderr, "was not confirmed") || status == 126
	if refused != asked || kept != asked || !asked && status != 0 {
		t.Errorf("%s: asked about: %t, want %t; the text is kept: %t\n%s", command, refused, asked, kept, fmt.Sprint(stdout, stderr, status))
	}
}
