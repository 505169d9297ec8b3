// Package hosttest has what the tests of the program share: the program and the plugins ([Bin], [Command]), scripts
// ([Scripts]), clients of its frontends ([Serve], [Connect], [NewClient]), the processes that a test started
// ([Descendants]), and the one way to wait for a condition ([Wait]).
package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/internal/testprogram"
)

// Bin is the directory of the tested programs: toolhost, its bundled plugins, and the plugin and the servers of the
// tests. All users can start them. No test may change them. [Main] sets Bin.
var Bin string

// starts counts the starts of toolhost.
var starts atomic.Int64

// Main runs the tests of a package and returns the exit status. A package that uses [Bin] calls it in TestMain.
//
// The program of the tests has two other names, under which Main is the program toolhost of the scripts: see
// [ScriptParams].
func Main(m *testing.M) int {
	switch filepath.Base(os.Args[0]) {
	case trustingName:
		return trusting()
	case residentName:
		return serveResident()
	}
	// Shells make background commands ignore the signal. The programs that the tests start must not inherit this,
	// because the tests interrupt them.
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	adoptOrphans()
	if Bin = os.Getenv("TOOLHOST_TEST_BIN"); Bin != "" { // a test runs itself again
		return m.Run()
	}
	_ = os.Setenv("CGO_ENABLED", "0") // builds in tests then share compiled packages with the programs
	dir, err := os.MkdirTemp("", "toolhost-test")
	if err == nil {
		Bin = dir
		defer os.RemoveAll(dir)
		err = install(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	counted, _ := os.ReadFile(filepath.Join(dir, startsFile)) // ignore the error: without scripts, there is no such file
	fmt.Printf("%s%d\n", StartsPrefix, starts.Load()+int64(len(counted)))
	return status
}

// StartsPrefix begins the line with the number of starts of toolhost, which each package prints at its end.
const StartsPrefix = "starts of toolhost: "

// startsFile has a byte for each start of toolhost by another program of the test.
const startsFile = "starts"

// Command returns a command that starts toolhost.
func Command(args ...string) *exec.Cmd { return CommandContext(context.Background(), args...) }

// CommandContext returns a command that starts toolhost. The program is killed when ctx is done.
func CommandContext(ctx context.Context, args ...string) *exec.Cmd {
	starts.Add(1)
	return exec.CommandContext(ctx, filepath.Join(Bin, "toolhost"), args...)
}

// install installs the programs in dir.
func install(dir string) error {
	programs, err := testprogram.Built()
	if err != nil {
		return err
	}
	err = filepath.WalkDir(programs, func(path string, d os.DirEntry, err error) error {
		to := filepath.Join(dir, strings.TrimPrefix(path, programs))
		switch {
		case err != nil || to == dir:
			return err
		case d.IsDir() && d.Name() == "go-cache": // see GoCache
			return filepath.SkipDir
		case d.IsDir():
			return os.Mkdir(to, 0o755)
		}
		return link(path, to)
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, trustingDir), 0o755),
		link(self, filepath.Join(dir, trustingDir, trustingName)),
		link(self, filepath.Join(dir, residentName)), learn(dir))
}

// GoCache returns the path of a cache of the go command, in which a small program finds what it needs of the standard
// library. Tests must copy it.
func GoCache(t *testing.T) string {
	t.Helper()
	programs, err := testprogram.Built()
	Must(t, err)
	return filepath.Join(programs, "go-cache")
}

// link makes a program available under another path. On another file system, it copies the program.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// kept lists the files of a state directory that store what a host has learned about the plugins and the kernel. These
// files are the same for all tests.
var kept = []string{"state.db", "sandbox.probed"}

// learn starts each bundled plugin and the test plugin once. The host stores what it learns in dir/kept. The function
// KeptState copies these files to new state directories.
func learn(dir string) error {
	work := filepath.Join(dir, "learned")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "learned.hcl") // outside of the workspace, where it would not be trusted
	config := fmt.Sprintf("plugin \"test\" {\n  path  = %q\n  field = \"test\"\n}\n", filepath.Join(dir, "testplugin"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	out, err := Command("--config", file, "--workspace", work, "--state", filepath.Join(dir, "kept"),
		"tools").CombinedOutput()
	if err != nil {
		return fmt.Errorf("toolhost tools: %w\n%s", err, out)
	}
	return nil
}

var keptMu sync.Mutex // locked while files are copied to a state directory

// Long reports whether the tests run in their long form, as "make soak-long" does.
func Long() bool { return os.Getenv("TOOLHOST_LONG") != "" }

// KeptState returns the state directory dir. If dir does not exist, KeptState creates it with the files in [kept].
// Without these files, the first command of each test would start all plugins to learn their tools. This would be five
// times as much work as the command itself.
func KeptState(t testing.TB, dir string) string {
	t.Helper()
	if err := fillState(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fillState(dir string) error {
	keptMu.Lock()
	defer keptMu.Unlock()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	for _, name := range kept {
		b, readErr := os.ReadFile(filepath.Join(Bin, "kept", name))
		if errors.Is(readErr, fs.ErrNotExist) { // a host that cannot use namespaces does not write the file sandbox.probed
			continue
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return err
}

// DebianProgram returns the path of a program from the unpacked Debian packages.
func DebianProgram(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(SourceEnv()["DEBIAN"], "usr", name)
	if _, err := os.Stat(path); err != nil || SourceEnv()["DEBIAN"] == "" {
		need.Missing(t, name+" is not there; run make peers-debian")
	}
	return path
}
