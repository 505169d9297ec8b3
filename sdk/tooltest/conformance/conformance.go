// Package conformance implements checks of a plugin's binary, in whatever language it is written,
// against docs/protocol.md. It plays the host: it starts the binary, talks to it over the wire,
// and also does what hosts do on bad days. [Test] is an author's whole test:
//
//	conformance.Test(t, conformance.Options{Binary: "bin/greeter"})
//
// The command "toolhost plugin test" does the same.
//
// The checks make up arguments from the schemas of the tools, and call only read-only tools with
// them. [Cases] add more: calls, a configuration, and calls that take long, without which
// cancellation is checked less well.
package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// Options configures a run. Only Binary is required.
type Options struct {
	// Binary is the path of the plugin's program. A relative path is relative to the current
	// directory.
	Binary string
	Args   []string
	// Env is added to the few variables that a host passes on. Entries have the form KEY=VALUE.
	Env   []string
	Cases Cases
	// AllTools also calls tools that are not read-only with made-up arguments. Their files are in
	// a directory that is removed afterwards. Whatever else they change stays changed.
	AllTools bool
	// Bind parses one of a tool's examples, a command line, and returns the arguments. It reports
	// false for a line that is more than one call of the tool. If Bind is nil the examples are not
	// checked.
	Bind func(def tool.Definition, example string) (args map[string]json.RawMessage, ok bool, err error)
	// Patience limits a start and a call that is not canceled. Zero means 30 seconds. It does not
	// change the limits of the protocol itself.
	Patience time.Duration
}

// Status is the outcome of a check.
type Status string

// The statuses.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Warned  Status = "warned"  // it passed, but something should be improved
	Skipped Status = "skipped" // it could not be made, for the given reason
)

// Result is the result of one check.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Section is the section of docs/protocol.md that the check is about.
	Section string `json:"section"`
	Status  Status `json:"status"`
	// Problems describe what is wrong, or why the check was skipped.
	Problems []string `json:"problems,omitempty"`
	// Fix describes the remedy. It is empty if there are no problems.
	Fix string `json:"fix,omitempty"`
	// Seconds is the time that the check took.
	Seconds float64 `json:"seconds"`
}

// Report is the result of a run.
type Report struct {
	Binary  string `json:"binary"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// Tools are the names of the plugin's tools.
	Tools  []string `json:"tools"`
	Passed bool     `json:"passed"`
	Checks []Result `json:"checks"`
	// LeftOut describes what was not checked, and how to include it.
	LeftOut []string `json:"left_out,omitempty"`
}

// Run makes all checks and returns the report, which holds what is wrong with the plugin. The
// error means that the checks could not be made. Run starts the plugin without a sandbox.
func Run(ctx context.Context, opts Options) (*Report, error) {
	path, err := filepath.Abs(opts.Binary)
	if err != nil {
		return nil, err
	}
	switch st, err := os.Stat(path); {
	case err != nil:
		return nil, fmt.Errorf("no plugin to test: %w", err)
	case st.IsDir():
		return nil, fmt.Errorf("%s is a directory; name the plugin's program", opts.Binary)
	case st.Mode()&0o111 == 0:
		return nil, fmt.Errorf("%s is not executable; run chmod +x", opts.Binary)
	}
	if opts.Patience <= 0 {
		opts.Patience = 30 * time.Second
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	s := &suite{opts: opts, path: path, dir: dir}
	if err := s.makeWorkspace(); err != nil {
		return nil, err
	}
	r := &Report{Binary: opts.Binary, Passed: true, Tools: []string{}}
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("the checks were stopped: %w", context.Cause(ctx))
		}
		result := s.check(ctx, c)
		r.Passed = r.Passed && result.Status != Failed
		r.Checks = append(r.Checks, result)
	}
	if s.desc != nil {
		r.Name, r.Version = s.desc.Name, s.desc.Version
		for _, d := range s.desc.Tools {
			r.Tools = append(r.Tools, d.Name)
		}
	}
	r.LeftOut = s.leftOut
	return r, nil
}

// Test makes all checks, each as a subtest. Problems fail the subtest, and warnings are logged.
func Test(t *testing.T, opts Options) {
	t.Helper()
	r, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		t.Run(c.ID, func(t *testing.T) {
			text := c.Title + ":\n" + strings.Join(c.Problems, "\n")
			switch c.Status {
			case Failed:
				t.Errorf("%s\nTo do: %s\nSee the section %q of docs/protocol.md.", text, c.Fix, c.Section)
			case Skipped:
				t.Skip(text)
			case Warned:
				t.Log(text)
			}
		})
	}
	for _, l := range r.LeftOut {
		t.Log("left out: " + l)
	}
}

// check is one check.
type check struct {
	id, title string
	// section is the section of docs/protocol.md that the check is about.
	section string
	fix     string
	// begins is set if the check is about the start of a plugin. Other checks need a plugin that
	// is ready.
	begins bool
	run    func(ctx context.Context, s *suite, v *verdict)
}

// verdict collects the findings of a check.
type verdict struct {
	failed, warned, skipped []string
}

func (v *verdict) failf(format string, a ...any) {
	v.failed = append(v.failed, fmt.Sprintf(format, a...))
}

func (v *verdict) warnf(format string, a ...any) {
	v.warned = append(v.warned, fmt.Sprintf(format, a...))
}

func (v *verdict) skip(why string) {
	v.skipped = append(v.skipped, why)
}

// suite is the state of a run.
type suite struct {
	opts  Options
	path  string
	dir   string // directory of the run, without symbolic links
	count int    // number of state directories

	first   *shaken           // result of the first start
	desc    *tool.Description // nil until it is known
	ready   bool              // the plugin starts and accepts its configuration
	calls   []call            // calls that may be made
	made    []made            // calls that checkCalls has made
	leftOut []string
}

func (s *suite) check(ctx context.Context, c check) Result {
	began := time.Now()
	r := Result{ID: c.id, Title: c.title, Section: c.section, Status: Passed}
	v := &verdict{}
	if !c.begins && !s.ready {
		v.skip("the plugin never becomes ready for calls")
	} else {
		c.run(ctx, s, v)
	}
	switch {
	case len(v.failed) > 0:
		r.Status, r.Problems, r.Fix = Failed, slices.Concat(v.failed, v.warned), c.fix
	case len(v.warned) > 0:
		r.Status, r.Problems, r.Fix = Warned, v.warned, c.fix
	case len(v.skipped) > 0:
		r.Status, r.Problems = Skipped, v.skipped
	}
	r.Problems = limited(r.Problems)
	r.Seconds = time.Since(began).Seconds()
	return r
}

// limited shortens a list of problems, because a wrong tool is wrong in many calls.
func limited(problems []string) []string {
	const most = 8
	if n := len(problems); n > most {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return problems
}

// makeWorkspace creates the files that made-up arguments name.
func (s *suite) makeWorkspace() error {
	if err := os.MkdirAll(s.workspace(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.workspace(), sampleFile), []byte("one\ntwo\nthree\n"), 0o600)
}

func (s *suite) workspace() string { return filepath.Join(s.dir, "workspace") }

// stateDir creates a new state directory and returns its path.
func (s *suite) stateDir() (string, error) {
	s.count++
	dir := filepath.Join(s.dir, fmt.Sprintf("state%d", s.count))
	return dir, os.Mkdir(dir, 0o700)
}
