package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/testbuilder"
)

// fixture is an engine whose plugins are programs in the process of the test.
type fixture struct {
	*Engine
	*testbuilder.Dir
	t *testing.T
}

// begin returns an engine with one plugin "p". The text "more" is added to the configuration.
func begin(t *testing.T, more string) *fixture {
	t.Helper()
	d := testbuilder.NewDir(t)
	d.Write("p", "version=1.0.0")
	d.Configure(d.Plugin("p", "") + more)
	return open(t, d, Options{})
}

// open returns an engine for a directory. It is closed at the end of the test.
func open(t *testing.T, d *testbuilder.Dir, opts Options) *fixture {
	t.Helper()
	f, err := opened(t, d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func opened(t *testing.T, d *testbuilder.Dir, opts Options) (*fixture, error) {
	if opts.Config == "" {
		opts.Config = d.Config()
	}
	if opts.Workspace == "" {
		opts.Workspace = d.Workspace()
	}
	if opts.StateDir == "" {
		opts.StateDir = d.StateDir()
	}
	opts.BundledDir = d.Bundled()
	e, err := NewMode(t.Context(), opts, Mode{Programs: d.Programs})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		d.Programs.Open()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{Engine: e, Dir: d, t: t}, nil
}

// run runs a request of the local user.
func (f *fixture) run(req Request) *tool.Result {
	return f.Begin(req, answer.Nobody{}).Run(f.t.Context())
}

// call calls a tool in a session.
func (f *fixture) call(session, name, args string) *tool.Result {
	return f.run(Request{Session: session, Name: name, Arguments: []byte(args)})
}

// hold begins a call that waits at a gate, and returns once it waits there.
func (f *fixture) hold(ctx context.Context, session, gate string) <-chan *tool.Result {
	res := make(chan *tool.Result, 1)
	pending := f.Begin(Request{Session: session, Name: "hold", Arguments: fmt.Appendf(nil, `{"gate":%q}`, gate)}, answer.Nobody{})
	go func() { res <- pending.Run(ctx) }()
	<-f.Programs.Gate(gate).Reached
	return res
}

// audited returns entries of the audit log, oldest first.
func (f *fixture) audited(q LogQuery) ([]LogEntry, error) {
	if err := f.State().Flush(); err != nil {
		return nil, err
	}
	return f.State().AuditLog(q)
}

func succeeds(t *testing.T, res *tool.Result, output string) {
	t.Helper()
	if res.Error != nil || !strings.Contains(res.Output, output) {
		t.Errorf("%q, %v; want %q", res.Output, res.Error, output)
	}
}

func failsWith(t *testing.T, res *tool.Result, kind tool.Kind, text string) {
	t.Helper()
	if res.Error == nil || res.Error.Kind != kind || !strings.Contains(res.Error.Message, text) {
		t.Errorf("%+v, want %s with %q", res.Error, kind, text)
	}
}

func contains(t *testing.T, what string, list []string, text string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) }) {
		t.Errorf("%s %q: none contains %q", what, list, text)
	}
}
