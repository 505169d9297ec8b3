package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/process"
)

// invocation is one command line, and what it must do. The configuration CONFIG is a file with the content config.
type invocation struct {
	args   []string
	config string
	in     string
	env    []string
	status int
	out    string // part of the output
	err    string // part of the errors; "" means that nothing is printed
}

var invocations = map[string]invocation{
	"version":        {args: []string{"version"}, out: "toolhost " + host.Version},
	"help":           {args: []string{"help", "config", "validate"}, out: "Check the configuration"},
	"root":           {args: nil, out: "toolhost gives an LLM agent its tools"},
	"valid":          {args: []string{"--config", "CONFIG", "config", "validate"}, config: "bundled = false\n", out: "is valid: 0 plugins."},
	"valid JSON":     {args: []string{"--json", "--config", "CONFIG", "config", "validate"}, config: "bundled = false\n", out: `"valid":true`},
	"not valid":      {args: []string{"--config", "CONFIG", "config", "validate"}, config: "bundle = false\n", status: process.ExitUsage, err: `bundle`},
	"no tools":       {args: []string{"--config", "CONFIG", "tools"}, config: "bundled = false\n", status: process.ExitUsage, err: "toolhost: no tool is available"},
	"unknown flag":   {args: []string{"config", "validate", "--nonsense"}, status: process.ExitUsage, err: "unknown flag: --nonsense\nSee toolhost config validate --help"},
	"a tool":         {args: []string{"read", "x", "--limit", "2"}, status: process.ExitUsage, err: `there is no command "toolhost read". To run a tool or a program, write run before it, such as: toolhost run read …`},
	"misspelt":       {args: []string{"tolos"}, status: process.ExitUsage, err: `there is no command "toolhost tolos". Did you mean "tools"? To run a tool`},
	"missing":        {args: []string{"plugin", "info"}, status: process.ExitUsage, err: "toolhost: an argument is missing; write: toolhost plugin info PLUGIN|SOURCE\nSee toolhost plugin info --help"},
	"too many":       {args: []string{"version", "now"}, status: process.ExitUsage, err: `"now" is an argument too many; write: toolhost version`},
	"unknown group":  {args: []string{"config", "valdate"}, status: process.ExitUsage, err: `there is no command "toolhost config valdate". Did you mean`},
	"standard input": {args: []string{"config", "fmt", "-"}, in: "bundled=false\n", out: "bundled = false\n"},
	"not formatted":  {args: []string{"config", "fmt", "--check", "-"}, in: "bundled=false\n", status: process.ExitFailure, out: "<stdin>"},
	"environment":    {args: []string{"config", "validate"}, config: "bundled = false\n", env: []string{"TOOLHOST_CONFIG=toolhost.test.hcl"}, out: "toolhost.test.hcl is valid"},
	"directory":      {args: []string{"config", "fmt", "toolhost.test.hcl"}, config: "bundled=false\n", out: "toolhost.test.hcl\n"},
	"deprecated":     {args: []string{"--json", "config", "reload", "--approve-widening"}, out: "[]", err: "Flag --approve-widening has been deprecated, use --approve-privileges\n"},
	"list":           {args: []string{"policy", "list"}, config: "bundled = false\n", out: "No answer is remembered.\n"},
}

// run runs the command line in a directory of its own, with the state directory that the test shares.
func (i invocation) run(t *testing.T, state string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "toolhost.test.hcl")
	if err := os.WriteFile(config, []byte(i.config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--state", state}
	for _, a := range i.args {
		args = append(args, strings.ReplaceAll(a, "CONFIG", config))
	}
	if i.args == nil {
		args = nil
	}
	var out, errs bytes.Buffer
	env := append([]string{"HOME=" + dir}, i.env...)
	status := Run(t.Context(), args, Stdio{In: strings.NewReader(i.in), Out: &out, Err: &errs, Env: env, Dir: dir})
	if status != i.status || !strings.Contains(out.String(), i.out) || !strings.Contains(errs.String(), i.err) || i.err == "" && errs.Len() > 0 {
		t.Errorf("%q: status %d, wanted %d\noutput: %s\nerrors: %s", args, status, i.status, out.String(), errs.String())
	}
}

// TestRun runs each command line twice in this process. The second run must not see anything of the first one, and no
// goroutine may be left.
func TestRun(t *testing.T) {
	for name, i := range invocations {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			i.run(t, state)
			before := runtime.NumGoroutine()
			i.run(t, state)
			for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					stacks := make([]byte, 1<<20)
					t.Fatalf("%d goroutines, and %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				}
			}
		})
	}
}

// TestRunsAtOnce runs all command lines at the same time. Their streams, environments and directories must stay apart.
func TestRunsAtOnce(t *testing.T) {
	var runs sync.WaitGroup
	for range 3 {
		for _, i := range invocations {
			state := t.TempDir()
			runs.Go(func() { i.run(t, state) })
		}
	}
	runs.Wait()
}

// TestRunWithoutStreams runs a command with the zero value of Stdio, and with a canceled context.
func TestRunWithoutStreams(t *testing.T) {
	if status := Run(t.Context(), []string{"version"}, Stdio{}); status != process.ExitOK {
		t.Errorf("status %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := Run(ctx, []string{"--state", t.TempDir(), "status", "--watch"}, Stdio{}); status != process.ExitOK {
		t.Errorf("status %d of a command whose context is canceled", status)
	}
}

// TestReferenceOfDirectory checks that relative paths refer to the directory of the command.
func TestReferenceOfDirectory(t *testing.T) {
	dir := t.TempDir()
	if status := Run(t.Context(), []string{"reference", "out"}, Stdio{Dir: dir}); status != process.ExitOK {
		t.Fatalf("status %d", status)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "cli.md"))
	if err != nil || !bytes.Contains(text, []byte("## toolhost config validate")) {
		t.Errorf("%v: %.200s", err, text)
	}
}
