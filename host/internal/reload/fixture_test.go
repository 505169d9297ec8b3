package reload

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/testbuilder"
)

// fixture is a reloader whose plugins are programs in the process of the test.
type fixture struct {
	*Reloader
	*testbuilder.Dir
	t         *testing.T
	published int // number of published configurations
}

// begin returns a reloader with one plugin "p", whose program has the given words. The text "more" is added to the
// block of the plugin.
func begin(t *testing.T, words, more string) *fixture {
	t.Helper()
	d := testbuilder.NewDir(t)
	d.Write("p", words)
	d.Configure(d.Plugin("p", more))
	return start(t, d)
}

// start returns a reloader for a directory. It is closed at the end of the test.
func start(t *testing.T, d *testbuilder.Dir) *fixture {
	t.Helper()
	f, cfg := prepared(t, d)
	launcher, err := f.Builder.Launcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), cfg, launcher); err != nil {
		t.Fatal(err)
	}
	return f
}

// prepared returns a reloader that was not started.
func prepared(t *testing.T, d *testbuilder.Dir) (*fixture, *config.Config) {
	t.Helper()
	h := testbuilder.New(t, d)
	f := &fixture{Dir: d, t: t}
	f.Reloader = New(Setup{
		Parts: h.Parts, Source: d.Source(), OpenPins: h.OpenPins, Live: true, Log: slog.New(slog.DiscardHandler),
		Published: func(*config.Config) { f.published++ },
	})
	h.Builder = f.Builder
	cfg, _ := h.Open(t)
	generation.Audit(cfg, h.State, h.Logs)
	t.Cleanup(func() {
		f.Close()
		f.CloseHooks()
	})
	return f, cfg
}

// begun queues a call in a session.
func (f *fixture) begun(session, name, args string) *dispatch.Pending {
	s := call.Session{Session: state.Session{ID: session, Workspace: f.Workspace(), Cwd: f.Workspace()}, Principal: principal.LocalUser()}
	s.Roots = []tool.Root{{Path: f.Workspace(), Writable: true}}
	return f.Current().Dispatch.Begin(call.Request{ID: "1", Name: name, Arguments: []byte(args), Session: s}, f.Builder.Calls.Scheduler.Enqueue(session))
}

func (f *fixture) call(name, args string) *tool.Result {
	return f.begun("s", name, args).Run(f.t.Context(), answer.Nobody{})
}

// hold begins a call that waits at a gate, and returns once it waits there.
func (f *fixture) hold(gate string) <-chan *tool.Result {
	res := make(chan *tool.Result, 1)
	pending := f.begun("held", "hold", fmt.Sprintf(`{"gate":%q}`, gate))
	go func() { res <- pending.Run(context.Background(), answer.Nobody{}) }()
	<-f.Programs.Gate(gate).Reached
	return res
}

// version returns the version that serves calls.
func (f *fixture) version() string {
	f.t.Helper()
	res := f.call("where", "{}")
	if res.Error != nil {
		f.t.Errorf("where: %v", res.Error)
	}
	return res.Run.PluginVersion
}

func (f *fixture) reload(opts Options) *Report {
	f.t.Helper()
	r, err := f.Reload(f.t.Context(), opts)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// unchanged checks that a change was refused, and that the program and the generation are those from before.
func (f *fixture) unchanged(before *generation.Generation, version string) {
	f.t.Helper()
	if f.Current().Config != before.Config || f.Current().Plugin("p") != before.Plugin("p") {
		f.t.Error("the generation changed")
	}
	if got := f.version(); got != version {
		f.t.Errorf("version %s serves, want %s", got, version)
	}
	if n := len(f.Programs.Running()); n != 1 {
		f.t.Errorf("%d programs run", n)
	}
}

// one checks that a report is about one plugin with the given outcome, and returns this part.
func one(t *testing.T, r *Report, outcome string) PluginReport {
	t.Helper()
	if len(r.Plugins) != 1 || r.Plugins[0].Outcome != outcome {
		t.Fatalf("%+v, want %s", r, outcome)
	}
	return r.Plugins[0]
}

func says(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q, want %q", what, text, w)
		}
	}
}

func contains(t *testing.T, what string, list []string, text string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) }) {
		t.Errorf("%s %q: none contains %q", what, list, text)
	}
}
