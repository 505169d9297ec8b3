package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notRun matches the comment on a command that the tests cannot run. The comment contains the reason.
var notRun = regexp.MustCompile(`# (?:by hand|takes minutes): \S`)

// ShellBlocks returns the lines of the shell blocks in a document.
func ShellBlocks(t *testing.T, path string) (lines []string) {
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

// Guide is a workspace in which the commands of documents run.
type Guide struct {
	t        *testing.T
	Dir      string
	Env      []string
	Ran      int
	programs string
}

// NewGuide returns an empty workspace. As in the repository, the built programs and the SDK are in directories next to
// it. The programs trust the project files, because the test cannot ask a person.
func NewGuide(t *testing.T) *Guide {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &Guide{t: t, Dir: filepath.Join(root, "workspace"), programs: filepath.Join(root, "bin")}
	for _, dir := range []string{g.Dir, g.programs, filepath.Join(g.programs, "plugins"),
		filepath.Join(g.programs, trustingDir), filepath.Join(root, "home"), filepath.Join(root, "tmp")} {
		Must(t, os.Mkdir(dir, 0o755))
	}
	for _, pattern := range []string{"toolhost*", filepath.Join(trustingDir, "*"), "plugins/*"} {
		paths, err := filepath.Glob(filepath.Join(Bin, pattern))
		Must(t, err)
		for _, path := range paths {
			rel, err := filepath.Rel(Bin, path)
			Must(t, err)
			Must(t, os.Link(path, filepath.Join(g.programs, rel)))
		}
	}
	sources := SourceEnv()
	Must(t, os.Symlink(filepath.Join(sources["SOURCES"], "sdk"), filepath.Join(root, "sdk")))
	g.Env = append(os.Environ(), "HOME="+filepath.Join(root, "home"),
		"XDG_CONFIG_HOME="+filepath.Join(root, "home", ".config"),
		"XDG_STATE_HOME="+filepath.Join(root, "home", "state"), "TMPDIR="+filepath.Join(root, "tmp"),
		"PATH="+filepath.Join(g.programs, trustingDir)+":"+os.Getenv("PATH"))
	for name, value := range sources {
		g.Env = append(g.Env, name+"="+value)
	}
	return g
}

// Run runs the unmarked commands of a document in the directory dir of the workspace. It returns their output.
func (g *Guide) Run(dir string, lines []string) string {
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
		c := exec.CommandContext(g.t.Context(), "sh", "-c",
			"cd "+dir+" && {\n"+line+"\n}\nstatus=$?; test $status = "+want+" || { echo exit status $status; exit 1; }")
		c.Dir, c.Env = g.Dir, g.Env
		out, err := c.CombinedOutput()
		all.Write(out)
		if err != nil {
			g.t.Fatalf("%s\n%s\n%v", line, out, err)
		}
		g.Ran++
	}
	return all.String()
}
