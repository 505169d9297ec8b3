package manifest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Runtime lists what a script needs from the machine to start: directories that a sandbox does not contain by default,
// and environment variables that are set.
type Runtime struct {
	Read, Env []string
}

// RuntimeOf returns the needs of scripts that an interpreter runs. The argument is the name of the interpreter's
// program, such as "python3" or "node".
func RuntimeOf(name string) Runtime {
	var r Runtime
	add := func(path string) {
		if filepath.IsAbs(path) && path != "/" && path != "/usr" && !strings.HasPrefix(path, "/usr/") &&
			!slices.Contains(r.Read, path) {
			r.Read = append(r.Read, path)
		}
	}
	switch {
	case strings.HasPrefix(name, "python"):
		for _, variable := range []string{"PYTHONPATH", "LD_LIBRARY_PATH"} {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			r.Env = append(r.Env, variable)
			for _, path := range filepath.SplitList(value) {
				add(path)
			}
		}
		// A virtual environment and the installation that it is made from have separate directories.
		out, err := exec.Command("python3", "-I", "-c", "import sys; print(sys.prefix); print(sys.base_prefix)").Output()
		for prefix := range strings.Lines(string(out)) {
			if err == nil {
				add(strings.TrimSpace(prefix))
			}
		}
	case name == "node":
		if path, err := exec.LookPath("node"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				add(filepath.Dir(filepath.Dir(path))) // the program is in the directory bin of its installation
			}
		}
	}
	return r
}

// Interpreter returns the name of the interpreter in the first line of a script, and "" for other programs.
func Interpreter(program string) string {
	f, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b := make([]byte, 256)
	n, err := io.ReadFull(f, b)
	if err != nil && n == 0 {
		return ""
	}
	line, _, _ := bytes.Cut(b[:n], []byte("\n"))
	command, ok := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(command)
	if !ok || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" && len(words) > 1 {
		words = words[1:]
	}
	return filepath.Base(words[0])
}
