package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli"
)

const (
	// residentName is the name under which the program of the tests runs the commands of a script, one after the other.
	residentName = "toolhost-resident"
	// trustingName is the name under which the program of the tests trusts project files and then executes toolhost. It
	// is in the directory trustingDir of [Bin].
	trustingName, trustingDir = "toolhost", "trusting"
)

// line is a command line that a resident runs.
type line struct {
	Args  []string
	Env   []string
	Dir   string
	Trust bool // whether the configuration becomes trusted before
}

// outcomeOfLine is what a command line did.
type outcomeOfLine struct {
	Out, Err string
	Status   int
}

// Resident is a process that runs command lines of toolhost, one after the other, so that a test that needs many of
// them starts one program. Each command line has its own environment and directory, as if it ran in a process of its
// own.
type Resident struct {
	mu  sync.Mutex // permits one command line at a time
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// NewResident starts a resident, which ends with the test.
func NewResident(t *testing.T) *Resident {
	t.Helper()
	r, err := startResident(os.Environ())
	Must(t, err)
	t.Cleanup(func() { _ = r.close() }) // ignore the error: a command can have changed how the process ends
	return r
}

// Run runs a command line in the directory dir with additional environment variables. It returns what the command
// printed, and its exit status. It is safe for concurrent use.
func (r *Resident) Run(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return r.mustRun(t, line{Args: args, Env: append(os.Environ(), env...), Dir: dir})
}

// Toolhost runs a command line as [Toolhost] does: it trusts the configuration of the workspace dir before.
func (r *Resident) Toolhost(t *testing.T, dir string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return r.mustRun(t, line{
		Args: append([]string{"--state", KeptState(t, dir+".state")}, args...), Env: os.Environ(), Dir: dir,
		Trust: true,
	})
}

func (r *Resident) mustRun(t *testing.T, l line) (stdout, stderr string, status int) {
	t.Helper()
	did, err := r.run(l)
	Must(t, err)
	return did.Out, did.Err, did.Status
}

func startResident(env []string) (*Resident, error) {
	starts.Add(1)
	r := &Resident{cmd: exec.Command(filepath.Join(Bin, residentName))}
	r.cmd.Env, r.cmd.Stderr, r.cmd.Dir = env, os.Stderr, Bin
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in, r.out = in, json.NewDecoder(out)
	return r, r.cmd.Start()
}

func (r *Resident) run(l line) (o outcomeOfLine, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.NewEncoder(r.in).Encode(l); err != nil {
		return o, err
	}
	if err = r.out.Decode(&o); err != nil {
		err = fmt.Errorf("the process that runs the commands of the script ended: %w", err)
	}
	return o, err
}

// close ends the process.
func (r *Resident) close() error { return errors.Join(r.in.Close(), r.cmd.Wait()) }

// serveResident is the main function of a resident.
func serveResident() int {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var l line
		if err := requests.Decode(&l); err != nil {
			return 0
		}
		if err := answers.Encode(l.run()); err != nil {
			return 1
		}
	}
}

// run runs the command line in this process.
func (l line) run() outcomeOfLine {
	os.Clearenv()
	for _, e := range l.Env {
		name, value, _ := strings.Cut(e, "=")
		_ = os.Setenv(name, value) // ignore the error: the names are those of an environment
	}
	if err := os.Chdir(l.Dir); err != nil {
		return outcomeOfLine{Err: err.Error(), Status: 1}
	}
	var stdout, stderr bytes.Buffer
	if l.Trust {
		l.Args = withTrust(l.Args)
	}
	status := cli.Run(context.Background(), l.Args, cli.Stdio{Out: &stdout, Err: &stderr})
	return outcomeOfLine{Out: stdout.String(), Err: stderr.String(), Status: status}
}

// trusting is the main function of the program that trusts project files and then executes toolhost.
func trusting() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin := filepath.Dir(filepath.Dir(self))
	if f, err := os.OpenFile(filepath.Join(bin, startsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err == nil {
		_, _ = f.WriteString(".") // ignore the error: the number is only printed
		_ = f.Close()
	}
	program := filepath.Join(bin, "toolhost")
	err = syscall.Exec(program, append([]string{program}, withTrust(os.Args[1:])...), os.Environ())
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// withTrust trusts the configuration that a script wrote, as the author of the file would, and returns the arguments
// for toolhost. If the decision cannot be recorded, for example in a directory that cannot be written, the arguments
// contain the digest, with which the command can trust the content once. Errors are ignored, because they are those of
// the command, too.
func withTrust(args []string) []string {
	opts, selected := optionsOf(args)
	if !selected && os.Getenv("TOOLHOST_CONFIG") == "" && !isFile("toolhost.hcl") && !isFile("toolhost.hcl.json") {
		return args
	}
	review, err := admin.ReviewContent(opts)
	if err != nil || !slices.Contains([]string{"untrusted", "operator"}, review.Status) {
		return args
	}
	if _, err := admin.TrustContent(opts, review.Digest); err == nil {
		return args
	}
	return append([]string{"--trust", review.Digest}, args...)
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// optionsOf returns the options of a host according to the flags of a command, and whether there is such a flag.
func optionsOf(args []string) (opts host.Options, selected bool) {
	config := ""
	set := map[string]func(string){
		"--config": func(v string) { config = v }, "--state": func(v string) { opts.StateDir = v }, "--workspace": func(v string) { opts.Workspace = v },
		"--var": func(v string) { opts.Variables = append(opts.Variables, v) }, "--var-file": func(v string) { opts.VariableFiles = append(opts.VariableFiles, v) },
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if set[name] == nil {
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		set[name](value)
		selected = true
	}
	opts.Config = admin.FindConfig(config, "", os.Getenv)
	return opts, selected
}
