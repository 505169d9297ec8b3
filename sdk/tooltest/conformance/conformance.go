// Package conformance checks whether the binary of a plugin follows docs/protocol.md. The plugin can be written in
// any language. The checks act as a host: they start the binary and call it over the connection. They also simulate
// failures of hosts. A call of [Test] is the complete test of a plugin:
//
//	conformance.Test(t, conformance.Options{Binary: "bin/greeter"})
//
// The command "toolhost plugin test" does the same.
//
// The checks generate arguments from the schemas of the tools. With generated arguments they call only read-only
// tools. An author can add calls and a configuration by [Cases]. A case with a long call improves the checks of
// cancellation.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// Options configures a run of the checks. Only Binary is required.
type Options struct {
	// Binary is the path of the plugin's program. A relative path is relative to the current
	// directory.
	Binary string
	Args   []string
	// Env lists additional environment variables in the form KEY=VALUE. In addition to Env, the plugin gets only the
	// few variables that a host passes on.
	Env   []string
	Cases Cases
	// AllTools makes the checks call all tools with generated arguments. If AllTools is false, they call only
	// read-only tools. Paths in generated arguments refer to a directory that is removed afterwards. All other
	// changes that the tools make persist.
	AllTools bool
	// Bind parses a command line, which is an example of a tool. It returns the arguments of the call. If the line
	// contains more than one call of the tool, ok is false. If Bind is nil, the examples are not checked.
	Bind func(def tool.Definition, example string) (args map[string]json.RawMessage, ok bool, err error)
	// Patience limits the time of a start and the time of a call that is not canceled. Zero means 30 seconds. Patience
	// does not change the time limits of the protocol itself.
	Patience time.Duration
	// Limit limits the time of all checks together. Zero means one minute. The checks that are not done by then fail.
	Limit time.Duration
}

// Status is the outcome of one check.
type Status string

// The values of [Status].
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Warned  Status = "warned"  // the check passed, but the plugin should be improved
	Skipped Status = "skipped" // the check was not possible; the result contains the reason
)

// Result is the result of one check.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Section is the section of docs/protocol.md that contains the checked rules.
	Section string `json:"section"`
	Status  Status `json:"status"`
	// Problems lists the problems that the check found. If the check was skipped, Problems contains the reason.
	Problems []string `json:"problems,omitempty"`
	// Fix is the remedy for the problems. It is empty if the check found no problems.
	Fix string `json:"fix,omitempty"`
	// Seconds is the duration of the check.
	Seconds float64 `json:"seconds"`
}

// Report is the result of all checks.
type Report struct {
	Binary  string `json:"binary"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// Tools lists the names of the plugin's tools.
	Tools  []string `json:"tools"`
	Passed bool     `json:"passed"`
	Checks []Result `json:"checks"`
	// LeftOut describes which calls were not checked and how to include them.
	LeftOut []string `json:"left_out,omitempty"`
}

// Run makes all checks and returns a report. The report contains the problems of the plugin. An error means that the
// checks could not run. Run starts the plugin without a sandbox.
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
	if opts.Limit <= 0 {
		opts.Limit = time.Minute
	}
	s := &suite{opts: opts, path: path, dir: dir, slow: new(atomic.Bool)}
	if err := s.makeWorkspace(); err != nil {
		return nil, err
	}
	r := &Report{Binary: opts.Binary, Passed: true, Tools: []string{}}
	limited, cancel := context.WithTimeoutCause(ctx, opts.Limit-ending, errLimit)
	defer cancel()
	for _, c := range checks {
		result := s.check(limited, c)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the checks were stopped: %w", context.Cause(ctx))
		}
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

// errLimit is the cause of the end of all checks at their time limit. The constant "ending" is the part of the time
// limit that is reserved for ending the processes.
var errLimit = errors.New("the time limit of all checks was reached")

const ending = 2 * time.Second

// Test makes all checks, each as a subtest. A subtest with problems fails. Warnings are logged.
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

// check is one check of the plugin.
type check struct {
	id, title string
	// section is the section of docs/protocol.md that contains the checked rules.
	section string
	fix     string
	// begins is true if the check concerns the start of the plugin. All other checks need a plugin that has started and
	// accepted its configuration.
	begins bool
	run    func(ctx context.Context, s *suite, v *verdict)
}

// verdict collects the findings of one check.
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

// suite is the state of a run of all checks.
type suite struct {
	opts  Options
	path  string
	dir   string // temporary directory of the run, without symbolic links in its path
	count int    // number of state directories created so far

	first   *shaken           // result of the first start
	desc    *tool.Description // description of the plugin; nil if it is not yet known
	ready   bool              // true if the plugin starts and accepts its configuration
	calls   []call            // calls that the checks are allowed to make
	made    []made            // calls that checkCalls has made
	leftOut []string
	// secrets maps the variables of the plugin's secrets to their values, once its description is known.
	secrets map[string]string
	// slow is true once a call had no result in time. Later calls then have less time, so that all checks end soon.
	slow *atomic.Bool
}

// impatience is the time limit of a call after an earlier call had no result in time.
const impatience = 3 * time.Second

// patience returns the time limit of the next call.
func (s *suite) patience() time.Duration {
	if s.slow.Load() {
		return min(s.opts.Patience, impatience)
	}
	return s.opts.Patience
}

// madeUp is the prefix of the values that the checks generate for required secrets.
const madeUp = "conformance-secret-"

// learnSecrets determines the values of the plugin's secrets. If Options.Env has no value for a required secret, the
// plugin gets a made-up one.
func (s *suite) learnSecrets() {
	s.secrets = make(map[string]string)
	if s.desc.Needs == nil {
		return
	}
	for _, n := range s.desc.Needs.Secrets {
		for _, e := range s.opts.Env {
			if name, value, _ := strings.Cut(e, "="); name == n.Name {
				s.secrets[name] = value
			}
		}
		if n.Need == tool.Required && s.secrets[n.Name] == "" {
			s.secrets[n.Name] = madeUp + n.Name
			s.opts.Env = append(slices.Clip(s.opts.Env), n.Name+"="+madeUp+n.Name)
		}
	}
}

func (s *suite) check(ctx context.Context, c check) Result {
	began := time.Now()
	r := Result{ID: c.id, Title: c.title, Section: c.section, Status: Passed}
	v := &verdict{}
	switch {
	case ctx.Err() != nil:
		v.failf("not checked, because earlier checks took %s; correct their problems first, or raise the limit (--limit)", s.opts.Limit)
	case !c.begins && !s.ready:
		v.skip("the plugin never becomes ready for calls; the failed checks above have the cause")
	default:
		c.run(ctx, s, v)
		if ctx.Err() != nil && len(v.failed) > 0 {
			v.failf("the time limit of all checks (%s) was reached during this check", s.opts.Limit)
		}
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

// limited shortens a list of problems. The list can be long, because a faulty tool causes the same problem in
// many calls.
func limited(problems []string) []string {
	const most = 8
	if n := len(problems); n > most {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return problems
}

// makeWorkspace creates the files that are used in generated arguments.
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
