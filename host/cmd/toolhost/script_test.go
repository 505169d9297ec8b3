package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"toolhost.dev/host/internal/testneed"
)

// bin is the directory of the tested binaries: toolhost, its bundled plugins and the host's test plugin. The binaries
// are built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Shells make background commands ignore the signal. The programs that the tests start must not inherit this,
	// because the tests interrupt them.
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	if bin = os.Getenv("TOOLHOST_TEST_BIN"); bin != "" { // a test runs itself again
		return m.Run()
	}
	_ = os.Setenv("CGO_ENABLED", "0") // builds in tests then share compiled packages with the programs
	dir, err := os.MkdirTemp("", "toolhost-test")
	if err == nil {
		bin = dir
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build copies the programs to dir, where all users can start them.
func build(dir string) error {
	programs, err := testneed.Programs()
	if err != nil {
		return err
	}
	var names []string
	err = filepath.WalkDir(programs, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, strings.TrimPrefix(path, programs+"/"))
		}
		return err
	})
	if err == nil {
		err = testneed.Copy(dir, names...)
	}
	if err == nil {
		err = installTrusting(dir)
	}
	if err == nil {
		err = learn(dir)
	}
	return err
}

// installTrusting installs a wrapper that most scripts run as toolhost. The wrapper trusts the project files of the
// script.
func installTrusting(dir string) error {
	script, err := os.ReadFile("testdata/trusting.sh")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "trusting"), 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "trusting", "toolhost"), script, 0o755)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scriptParams(t, "testdata/script"))
}

// scriptParams returns how the scripts of a directory run.
func scriptParams(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// Socket paths must be short, and each script needs a separate runtime directory.
			runtime, err := os.MkdirTemp("", "th")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(runtime) })
			work, err := filepath.EvalSymlinks(e.WorkDir)
			if err != nil {
				return err
			}
			// The state directory must be outside of the workspace, because tools can write in the workspace.
			state, err := os.MkdirTemp("", "toolhost-state")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(state) })
			if err := fillState(filepath.Join(state, "toolhost")); err != nil {
				return err
			}
			list := string(os.PathListSeparator)
			e.Setenv("PATH", filepath.Join(bin, "trusting")+list+bin+list+os.Getenv("PATH"))
			e.Setenv("BIN", bin)
			for name, value := range sourceEnv() {
				e.Setenv(name, value)
			}
			e.Setenv("RUNTIME", runtime)
			e.Setenv("REALWORK", work)
			e.Setenv("XDG_RUNTIME_DIR", runtime)
			e.Setenv("XDG_STATE_HOME", state)
			e.Setenv("STATE", filepath.Join(state, "toolhost"))
			temporary := filepath.Join(state, "tmp")
			if err := os.Mkdir(temporary, 0o700); err != nil {
				return err
			}
			e.Setenv("TMPDIR", temporary)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(state, "config"))
			e.Setenv("TOOLHOST_TEST_SECRET", "must not leak")
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "python" { // whether gRPC for Python is available
				return os.Getenv("TOOLHOST_PEERS") != "" && sourceEnv()["DEBIAN"] != "", nil
			}
			if name == "node" { // whether the SDK for Node can be built
				_, err := exec.LookPath("npm")
				_, esbuild := os.Stat(filepath.Join(sourceEnv()["SOURCES"], "sdk/node/node_modules/.bin/esbuild"))
				return err == nil && esbuild == nil, nil
			}
			if name == "xattr" { // whether the file system of the scripts supports extended attributes
				return attributesAreKept()
			}
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			if name == "ns" { // whether the backend "ns" works
				return supports(t, name), nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"jsoneq":   jsonEq,
			"nothing":  nothing,
			"waitfor":  waitFor,
			"killhost": killHost,
			"signal":   signalHost,
			"gone":     noneHas,
			"mkfifo":   makeFIFO,
			"mkbig":    makeBig,
			"xattr":    attribute,
		},
	}
}

// sourceEnv returns the environment variables for scripts that build plugins: the path of the source code, the caches of
// Go and the path of gRPC for Python.
var sourceEnv = sync.OnceValue(func() map[string]string {
	root, err := testneed.Root()
	if err != nil {
		panic(err)
	}
	env := map[string]string{"SOURCES": root, "GOFLAGS": os.Getenv("GOFLAGS")}
	for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
		if out, err := exec.Command("go", "env", name).Output(); err == nil {
			env[name] = strings.TrimSpace(string(out))
		}
	}
	env["GOPROXY"] = "off" // generated modules must be buildable without network access
	// The path of the packages is that of the user's cache, because sandboxes get access to it.
	debian := os.Getenv("TOOLHOST_DEBIAN")
	if debian == "" {
		debian, err = filepath.EvalSymlinks(filepath.Join(root, "bench/peers/debian"))
	}
	if err == nil {
		env["DEBIAN"] = debian
		if libs, _ := filepath.Glob(filepath.Join(debian, "usr/lib/*-linux-gnu")); len(libs) > 0 {
			env["DEBIAN_LIBS"] = libs[0]
		}
	}
	return env
})

// jsonEq implements the script command jsoneq PATH VALUE. It compares the value at a dotted path in the last standard
// output, which must be JSON. For JSON Lines output, ID:PATH selects the line with the given id.
func jsonEq(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: jsoneq [ID:]PATH VALUE")
	}
	path, want := args[0], args[1]
	text := ts.ReadFile("stdout")
	if id, rest, ok := strings.Cut(path, ":"); ok {
		path = rest
		found := ""
		for line := range strings.Lines(text) {
			if strings.Contains(line, `"id":`+id+`,`) {
				found = line
			}
		}
		if found == "" {
			ts.Fatalf("no line has the id %s in\n%s", id, text)
		}
		text = found
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("standard output is not JSON: %v\n%s", err, text)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[part]
			if !ok {
				next = "(absent)"
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(at) {
				ts.Fatalf("no element %q in a list of %d", part, len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("no %q in %v", part, v)
		}
	}
	// The expected value of a one-line string is its plain text. Every other expected value is JSON.
	got, ok := v.(string)
	if !ok || got == "" || strings.Contains(got, "\n") {
		b, _ := json.Marshal(v)
		got = string(b)
	}
	if (got == want) == neg {
		ts.Fatalf("%s is %s, want %s", path, got, want)
	}
}

// nothing implements the script command "nothing left". It checks that no plugin process and no socket of the script
// remains.
func nothing(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 || args[0] != "left" {
		ts.Fatalf("usage: nothing left")
	}
	var why error
	for range 600 {
		if why = anythingLeft(ts.Getenv("RUNTIME")); why == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%v", why)
}

func anythingLeft(runtime string) error {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, p := range procs {
		// The runtime directory in the environment of a process identifies its script.
		env, err := os.ReadFile(filepath.Join("/proc", p.Name(), "environ"))
		if err == nil && strings.Contains(string(env), "PLUGIN_UNIX_SOCKET_DIR="+runtime+"/") {
			cmdline, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
			return fmt.Errorf("process %s is left: %q", p.Name(), cmdline)
		}
	}
	var left []string
	err = filepath.WalkDir(runtime, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type() == os.ModeSocket {
			left = append(left, path)
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("sockets are left: %v", left)
	}
	return err
}

// The constant "waits" is the maximum number of attempts of script commands that wait for a condition. The attempts are
// 50 ms apart. A busy machine can need most of the attempts.
const waits = 1200

// waitFor implements the script command waitfor FILE [TEXT]. It waits until the file exists and contains the text.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	for range waits {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && (len(args) == 1 || strings.Contains(string(b), args[1])) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%v: the file or the text did not appear", args)
}

// killHost implements the script command killhost NAME. It sends SIGKILL to a background command and waits for the end
// of the command.
func killHost(ts *testscript.TestScript, _ bool, args []string) {
	signalTo(ts, args[0], syscall.SIGKILL)
}

// signalHost implements the script command signal NAME. It sends SIGINT to a background command.
func signalHost(ts *testscript.TestScript, _ bool, args []string) {
	signalTo(ts, args[0], syscall.SIGINT)
}

// noneHas implements the script command gone NAME=VALUE. It waits until no process has this variable in its environment.
// With "!", it checks that such a process exists.
func noneHas(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: gone NAME=VALUE")
	}
	for range waits {
		found := ""
		procs, err := filepath.Glob("/proc/[0-9]*/environ")
		ts.Check(err)
		for _, p := range procs {
			if env, err := os.ReadFile(p); err == nil && slices.Contains(strings.Split(string(env), "\x00"), args[0]) {
				found = p
			}
		}
		if (found != "") == neg {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("the processes did not reach the expected state")
}

func signalTo(ts *testscript.TestScript, pidFile string, sig syscall.Signal) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(pidFile)))
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err != nil {
		ts.Fatalf("signal: %v", err)
	}
	if sig != syscall.SIGKILL {
		return
	}
	for range 100 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func makeFIFO(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// makeBig implements the script command mkbig FILE MB. It creates a sparse file.
func makeBig(ts *testscript.TestScript, _ bool, args []string) {
	mb, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(f.Truncate(mb << 20))
	ts.Check(f.Close())
}
