package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// notRun matches the comment on a command that the tests cannot run. The comment contains the reason.
var notRun = regexp.MustCompile(`# (?:by hand|takes minutes): \S`)

// shellBlocks returns the lines of the shell blocks in a document.
func shellBlocks(t *testing.T, path string) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(b), -1) {
		for line := range strings.Lines(m[1]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no blocks of commands", path)
	}
	return lines
}

// status matches the comment on a command with an exit status other than 0.
var status = regexp.MustCompile(`# .*\(exit status (\d+)\)`)

// guide is a workspace in which the commands of documents run.
type guide struct {
	t        *testing.T
	dir      string
	env      []string
	ran      int
	programs string
}

// newGuide returns an empty workspace. As in the repository, the built programs and the SDK are in directories next to
// it. The programs trust the project files, because the test cannot ask a person.
func newGuide(t *testing.T) *guide {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{t: t, dir: filepath.Join(root, "workspace"), programs: filepath.Join(root, "bin")}
	for _, dir := range []string{g.dir, g.programs, filepath.Join(g.programs, "plugins"), filepath.Join(root, "home"), filepath.Join(root, "tmp")} {
		must(t, os.Mkdir(dir, 0o755))
	}
	for _, pattern := range []string{"toolhost*", "testtrust", "plugins/*"} {
		paths, err := filepath.Glob(filepath.Join(bin, pattern))
		must(t, err)
		for _, path := range paths {
			rel, err := filepath.Rel(bin, path)
			must(t, err)
			must(t, os.Link(path, filepath.Join(g.programs, rel)))
		}
	}
	must(t, installTrusting(g.programs))
	sources := sourceEnv()
	must(t, os.Symlink(filepath.Join(sources["SOURCES"], "sdk"), filepath.Join(root, "sdk")))
	g.env = append(os.Environ(), "HOME="+filepath.Join(root, "home"), "XDG_CONFIG_HOME="+filepath.Join(root, "home", ".config"),
		"XDG_STATE_HOME="+filepath.Join(root, "home", "state"), "TMPDIR="+filepath.Join(root, "tmp"),
		"PATH="+filepath.Join(g.programs, "trusting")+":"+os.Getenv("PATH"))
	for name, value := range sources {
		g.env = append(g.env, name+"="+value)
	}
	return g
}

// run runs the unmarked commands of a document in the directory dir of the workspace. It returns their output.
func (g *guide) run(dir string, lines []string) string {
	g.t.Helper()
	var all strings.Builder
	for _, line := range lines {
		if notRun.MatchString(line) {
			continue
		}
		want := "0"
		if m := status.FindStringSubmatch(line); m != nil {
			want = m[1]
		}
		c := exec.CommandContext(g.t.Context(), "sh", "-c", "cd "+dir+" && {\n"+line+"\n}\nstatus=$?; test $status = "+want+" || { echo exit status $status; exit 1; }")
		c.Dir, c.Env = g.dir, g.env
		out, err := c.CombinedOutput()
		all.Write(out)
		if err != nil {
			g.t.Fatalf("%s\n%s\n%v", line, out, err)
		}
		g.ran++
	}
	return all.String()
}

// TestErrorCodes checks that the guide lists each kind of error with its code.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/agents.md")
	must(t, err)
	kinds := []tool.Kind{
		tool.NotFound, tool.InvalidArguments, tool.PermissionDenied, tool.Security, tool.Timeout, tool.Canceled, tool.Unavailable, tool.Conflict, tool.ExecutionFailed, tool.Internal,
	}
	for _, k := range kinds {
		if row := fmt.Sprintf("\n| `%s` | %d | ", k, k.Code()); k.Code() == 0 || !strings.Contains(string(guide), row) {
			t.Errorf("docs/agents.md has no row %q", row)
		}
	}
}
