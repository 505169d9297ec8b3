package hosttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"toolhost.dev/host/internal/testprogram"
)

// Scripts runs the scripts in testdata/script.
func Scripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, ScriptParams(t, "testdata/script"))
}

// ScriptParams returns how the scripts of a directory run. Beside the commands of [testscript], a script has these:
//
//   - toolhost ARG...  runs toolhost in a process that all such commands of the script share; with !, it must fail
//   - jsoneq [ID:]PATH VALUE  compares a value of the last standard output, which must be JSON
//   - nothing left  checks that no plugin and no socket of the script remains
//   - waitfor FILE [TEXT]  waits until a file exists and contains a text
//   - gone NAME=VALUE, gone 'COMMAND ARG...'  waits until no process has a variable in its environment, which can end with *, or
//     a command line; with !, until one has
//   - killhost FILE, signal FILE  send SIGKILL or SIGINT to the process whose id is in a file
//   - killall NAME=VALUE, killall 'COMMAND ARG...'  sends SIGKILL to all processes that gone would find
//   - mkfifo FILE, mkbig FILE MB, xattr  create a named pipe, a sparse file, and extended attributes
//
// With exec, toolhost runs in a process of its own. Both trust what the script wrote; $BIN/toolhost does not.
func ScriptParams(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(e *testscript.Env) error { return setUp(e, dir) },
		Condition:           func(name string) (bool, error) { return condition(t, name) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"toolhost": runToolhost,
			"jsoneq":   jsonEq,
			"nothing":  nothing,
			"waitfor":  waitFor,
			"killall":  killAll,
			"killhost": killHost,
			"signal":   signalHost,
			"gone":     noneHas,
			"mkfifo":   makeFIFO,
			"mkbig":    makeBig,
			"xattr":    attribute,
		},
	}
}

// setUp prepares the environment of a script from the directory dir.
func setUp(e *testscript.Env, dir string) error {
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
	e.Setenv("PATH", filepath.Join(Bin, trustingDir)+list+Bin+list+os.Getenv("PATH"))
	e.Setenv("BIN", Bin)
	for name, value := range SourceEnv() {
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
	own := &residents{dir: dir, env: e.Vars}
	e.Values[residentKey{}] = own
	e.Defer(own.close)
	return nil
}

// condition reports whether the machine has what a script needs.
func condition(t *testing.T, name string) (bool, error) {
	if name == "python" { // whether gRPC for Python is available
		return os.Getenv("TOOLHOST_PEERS") != "" && SourceEnv()["DEBIAN"] != "", nil
	}
	if name == "node" { // whether the SDK for Node can be built
		_, err := exec.LookPath("npm")
		_, esbuild := os.Stat(filepath.Join(SourceEnv()["SOURCES"], "sdk/node/node_modules/.bin/esbuild"))
		return err == nil && esbuild == nil, nil
	}
	if name == "xattr" { // whether the file system of the scripts supports extended attributes
		return attributesAreKept()
	}
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	if name == "ns" { // whether the backend "ns" works
		return Supports(t, name), nil
	}
	return false, fmt.Errorf("there is no condition %q", name)
}

// SourceEnv returns the environment variables for scripts that build plugins: the path of the source code, the caches
// of Go and the path of gRPC for Python.
var SourceEnv = sync.OnceValue(func() map[string]string {
	root, err := testprogram.Root()
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
	ts.Check(wait(patience, func() error { return anythingLeft(ts.Getenv("RUNTIME")) }))
}

func anythingLeft(runtime string) error {
	// The runtime directory in the environment of a process identifies its script.
	for _, p := range Descendants() {
		if p.HasEnv(func(e string) bool { return strings.HasPrefix(e, "PLUGIN_UNIX_SOCKET_DIR="+runtime+"/") }) {
			return fmt.Errorf("process %d is left: %q", p.PID, p.Command())
		}
	}
	var left []string
	err := filepath.WalkDir(runtime, func(path string, d os.DirEntry, err error) error {
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

// waitFor implements the script command waitfor FILE [TEXT]. It waits until the file exists and contains the text.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(wait(patience, func() error {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && len(args) > 1 && !strings.Contains(string(b), args[1]) {
			err = fmt.Errorf("%s lacks %q:\n%s", args[0], args[1], b)
		}
		return err
	}))
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

// noneHas implements the script commands gone NAME=VALUE and gone 'COMMAND ARG...'. It waits until no process has this
// variable in its environment, or this command line. With "!", it waits until such a process exists.
func noneHas(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: gone NAME=VALUE, gone 'COMMAND ARG...'")
	}
	ts.Check(wait(patience, func() error {
		switch found := matching(args[0]); {
		case neg && len(found) == 0:
			return fmt.Errorf("no process has %s", args[0])
		case !neg && len(found) > 0:
			return fmt.Errorf("process %d has %s: %q", found[0].PID, args[0], found[0].Command())
		}
		return nil
	}))
}

// killAll implements the script command killall, with the arguments of gone.
func killAll(ts *testscript.TestScript, _ bool, args []string) {
	for _, p := range matching(args[0]) {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			ts.Fatalf("process %d: %v", p.PID, err)
		}
	}
}

// isVariable matches NAME=VALUE.
var isVariable = regexp.MustCompile(`^\w+=`)

// matching returns the processes with a command line, or with a variable in their environment. A value can end with
// "*".
func matching(what string) []Process {
	prefix, open := strings.CutSuffix(what, "*")
	return slices.DeleteFunc(Descendants(), func(p Process) bool {
		if !isVariable.MatchString(what) {
			return p.Command() != what
		}
		return !p.HasEnv(func(e string) bool { return e == what || open && strings.HasPrefix(e, prefix) })
	})
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
	ts.Check(wait(patience, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d has not ended: %w", pid, err)
		}
		return nil
	}))
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

// residentKey is the key of the [residents] of a script.
type residentKey struct{}

// residents runs the commands of one script. The environment of the script consists of the variables that the test set,
// and of those that the script names. A variable without a value counts as one that is not set.
type residents struct {
	dir     string // of the scripts
	env     []string
	names   []string
	started *Resident
}

func (r *residents) close() {
	if r.started != nil {
		_ = r.started.close() // ignore the error: a command can have changed how the process ends
	}
}

// setsVariable matches a line of a script that sets variables.
var setsVariable = regexp.MustCompile(`(?m)^(?:\[[^\]]*\] *)*env (.*)`)

// environment returns the environment of a script.
func (r *residents) environment(ts *testscript.TestScript) []string {
	if r.names == nil {
		for _, e := range r.env {
			name, _, _ := strings.Cut(e, "=")
			r.names = append(r.names, name)
		}
		script, err := os.ReadFile(filepath.Join(r.dir, ts.Name()+".txtar"))
		ts.Check(err)
		for _, m := range setsVariable.FindAllStringSubmatch(string(script), -1) {
			for word := range strings.FieldsSeq(m[1]) {
				if name, _, ok := strings.Cut(strings.Trim(word, "'"), "="); ok {
					r.names = append(r.names, name)
				}
			}
		}
	}
	var env []string
	for _, name := range r.names {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// runToolhost implements the script command toolhost.
func runToolhost(ts *testscript.TestScript, neg bool, args []string) {
	own, ok := ts.Value(residentKey{}).(*residents)
	if !ok {
		ts.Fatalf("no resident")
	}
	env := own.environment(ts)
	if own.started == nil {
		started, err := startResident(env)
		ts.Check(err)
		own.started = started
	}
	did, err := own.started.run(line{Args: args, Env: env, Dir: ts.MkAbs("."), Trust: true})
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), did.Out)
	fmt.Fprint(ts.Stderr(), did.Err)
	switch {
	case did.Status == 0 && neg:
		ts.Fatalf("unexpected success")
	case did.Status != 0 && !neg:
		ts.Fatalf("exit status %d", did.Status)
	}
}
