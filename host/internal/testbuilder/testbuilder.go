// Package testbuilder makes builders of generations for tests. Their plugins are programs of package testprogram, and
// all files are in a directory of the test. Most callers want [New].
package testbuilder

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/testprogram"
	"toolhost.dev/host/internal/trust"
)

// Version is the version of the host of the builders.
const Version = "1.0.0"

// Dir is the directory of a test with the configuration, the programs, the workspace and the state of a host.
type Dir struct {
	Programs *testprogram.Programs
	Path     string

	t testing.TB
}

// database returns the content of a new database. Most of the time for opening a new database is spent on its schema,
// so the schema is made only once for all tests.
var database = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "testbuilder")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a remaining directory does no harm
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "state.db"))
})

// NewDir returns a directory for one test.
func NewDir(t testing.TB) *Dir {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &Dir{Programs: testprogram.New(t), Path: path, t: t}
	for _, name := range []string{"bin", "workspace", "state"} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text, err := database()
	if err == nil {
		err = os.WriteFile(filepath.Join(d.StateDir(), "state.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Configure("")
	return d
}

// Config returns the path of the configuration.
func (d *Dir) Config() string { return filepath.Join(d.Path, "toolhost.hcl") }

// Workspace returns the path of the workspace.
func (d *Dir) Workspace() string { return filepath.Join(d.Path, "workspace") }

// StateDir returns the path of the state directory.
func (d *Dir) StateDir() string { return filepath.Join(d.Path, "state") }

// Bundled returns the path of the directory of the bundled plugins, which does not exist.
func (d *Dir) Bundled() string { return filepath.Join(d.Path, "bundled") }

// Program returns the path of a program.
func (d *Dir) Program(name string) string { return filepath.Join(d.Path, "bin", name) }

// Write writes a program. See package testprogram for the words.
func (d *Dir) Write(name, words string) {
	d.t.Helper()
	d.Programs.Write(d.Program(name), words)
}

// Configure writes a configuration with the given text. The bundled plugins and the sandbox are off.
func (d *Dir) Configure(text string) {
	d.t.Helper()
	text = "bundled = false\nsandbox {\n  enforce = \"off\"\n}\n" + text
	if err := os.WriteFile(d.Config()+".new", []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(d.Config()+".new", d.Config()); err != nil {
		d.t.Fatal(err)
	}
}

// Plugin returns the block of a plugin for a configuration. The text "more" is added to the block.
func (d *Dir) Plugin(name, more string) string {
	return fmt.Sprintf("plugin %q {\n  path = %q\n%s\n}\n", name, d.Program(name), more)
}

// Source returns the configuration as a host opens it.
func (d *Dir) Source() admission.Source {
	return admission.Source{
		Source:    config.Source{Path: d.Config(), Environment: config.Environment{BundledDir: d.Bundled()}},
		Workspace: d.Workspace(), StateDir: d.StateDir(),
	}
}

// Host is a builder with its directory.
type Host struct {
	*Dir
	*generation.Builder

	lives registry.Lives
	// Published is the current generation.
	Published *generation.Generation
	// Found receives the new description of a running plugin that changed its tools. It can be nil.
	Found chan<- *tool.Description
}

// Current implements [generation.Owner].
func (h *Host) Current() *generation.Generation { return h.Published }

// Notified implements [generation.Owner]. It does nothing.
func (*Host) Notified(*generation.Plugin, supervisor.Notice) {}

// Rediscovered implements [generation.Owner].
func (h *Host) Rediscovered(_ *generation.Plugin, now *tool.Description) {
	if h.Found != nil {
		h.Found <- now
	}
}

// New returns a builder for a directory. It is closed at the end of the test.
func New(t testing.TB, d *Dir) *Host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := state.Open(d.StateDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	super := supervisor.New(supervisor.Options{HostVersion: Version, Programs: d.Programs, RuntimeDir: t.TempDir()})
	home := state.Home{Root: d.StateDir(), Runtime: super.RuntimeDir}
	commands := shim.NewGranter(shim.GranterOptions{
		Dir: home.Commands, RuntimeDir: super.RuntimeDir, InheritedFD: supervisor.InheritedFD, Log: log,
	})
	parts := &confinement.Parts{
		Home: home, Commands: commands, Audit: db.AddAudit, Sum: db.BinaryHash, Log: log,
		Repositories: confinement.NewRepositories(home, db.AddAudit, log),
	}
	h := &Host{Dir: d}
	h.Builder = generation.NewBuilder(generation.Parts{
		Options: generation.Options{Workspace: d.Workspace(), Bundled: d.Bundled()},
		Calls: &generation.Calls{
			Scheduler: scheduler.New(10), Recorder: recorder.Recorder{Dir: home.Recordings(), Log: log},
		},
		State: db, Home: home, Supervisor: super, Confine: parts, Commands: commands,
		Logins:    principal.NewLoginKeeper(principal.OpenLogins(home.Root), nil, log),
		Overrides: new(generation.Overrides), Log: log, Logs: telemetry.NewPluginLog(home.Logs, log),
	}, h)
	t.Cleanup(func() {
		super.Close(0)
		if err := parts.Repositories.Close(); err != nil {
			t.Error(err)
		}
		h.Calls.Recorder.Close()
		commands.Close()
		h.Logins.Close()
		h.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// OpenPins opens the pins of a configuration.
func (h *Host) OpenPins(cfg *config.Config) (*trust.Pins, error) {
	return trust.OpenPins(trust.PinOptions{
		Config: cfg.Path, Hash: h.State.BinaryHash, Guard: h.Source().Guard(cfg),
		CheckStart: h.Source().CheckStart(cfg), Dir: h.Home.Pinned,
	})
}

// Open opens the configuration, its launcher and its pins.
func (h *Host) Open(t testing.TB) (*config.Config, *confinement.Launcher) {
	t.Helper()
	cfg, err := h.Source().Open()
	if err != nil {
		t.Fatal(err)
	}
	launcher, err := h.Launcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := h.OpenPins(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Trust(cfg, pins)
	if err := roots.Refused(cfg, h.Workspace()); err != nil {
		t.Fatal(err)
	}
	return cfg, launcher
}

// Load opens the configuration and builds its generation, which becomes the current one.
func (h *Host) Load(t testing.TB) *generation.Generation {
	t.Helper()
	cfg, launcher := h.Open(t)
	g, err := h.Builder.Load(t.Context(), cfg, launcher)
	if err != nil {
		t.Fatal(err)
	}
	h.lives.Publish(g.Registry, g.Suspended)
	h.Published = g
	return g
}
