// Package peer finds and runs the programs with which the tests compare this plugin.
package peer

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Ripgrep returns the path of ripgrep 15: the value of TOOLHOST_RG, or the program installed by `npm ci --prefix
// bench/peers`. If ripgrep is missing, the test fails.
func Ripgrep(t testing.TB) string {
	t.Helper()
	rg := os.Getenv("TOOLHOST_RG")
	if rg == "" {
		found, err := filepath.Glob(filepath.Join(Installed(), "node_modules/@vscode/ripgrep-*/bin/rg"))
		if err != nil || len(found) == 0 {
			t.Fatal("ripgrep is not installed: run `npm ci --prefix bench/peers`, or set TOOLHOST_RG")
		}
		rg = found[0]
	}
	if v, _ := Run(t, "", rg, "--version"); !strings.HasPrefix(v, "ripgrep 15.") {
		t.Fatalf("%s is not ripgrep 15: %s", rg, v)
	}
	return rg
}

// GNUGrep returns the path of GNU grep. If GNU grep is missing, the test fails.
func GNUGrep(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("grep")
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := Run(t, "", path, "--version"); !strings.Contains(v, "GNU grep") {
		t.Fatalf("%s is not GNU grep", path)
	}
	return path
}

// Fd returns the path of fd. If fd is missing, the test is skipped.
func Fd(t testing.TB) string {
	t.Helper()
	return debian(t, "fd")
}

// Ctags returns the path of universal-ctags. If universal-ctags is missing, the test is skipped.
func Ctags(t testing.TB) string {
	t.Helper()
	return debian(t, "ctags")
}

// GoSources returns the directory with the sources of Go's own packages. It returns "" if there is no go command.
func GoSources() string { return goSources() }

var goSources = sync.OnceValue(func() string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src")
})

// Installed returns the directory in which the peer programs are installed: the value of TOOLHOST_PEERS, or
// bench/peers in this repository.
func Installed() string {
	if dir := os.Getenv("TOOLHOST_PEERS"); dir != "" {
		return dir
	}
	dir, _ := os.Getwd() // the error is ignored, because the peers are then reported as missing
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "bench/peers")
}

// debian returns the path of a program that `make peers-debian` has unpacked. If the program is missing, the test is
// skipped.
func debian(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("TOOLHOST_DEBIAN")
	if dir == "" {
		dir = filepath.Join(Installed(), "debian")
	}
	path := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is missing, and the test compares with it: run `make peers-debian` on Debian 12", name)
	}
	return path
}

// Run runs a program in a directory, without the user's configuration. It returns the program's standard output and
// exit status.
func Run(t testing.TB, dir, program string, args ...string) (stdout string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...) // #nosec G204 G702 -- the test chooses the program
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "RIPGREP_CONFIG_PATH=", "GREP_OPTIONS=")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return out.String(), 0
}
