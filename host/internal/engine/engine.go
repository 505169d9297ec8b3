// Package engine implements the running host behind package host. It starts and stops the components of a host, runs
// requests, and answers other processes. Most callers want [New] and [Engine.Run].
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/trust"
)

// Version is the version of the host.
const Version = build.Version

// Options holds the options of an engine. See host.Options for the meaning of the fields.
type Options struct {
	Config                   string
	Variables, VariableFiles []string
	BundledDir               string
	Workspace                string
	Workspaces               []string
	Secrets                  map[string]string
	ReadOnly                 bool
	Trust                    []string
	RequireTrust             bool
	TrustDir                 string
	StateDir                 string
	OnAsk                    string
	Prompt                   bool
	Log                      *slog.Logger
	RetryFailed              bool
	Live                     bool
	Hooks                    []hook.Hook
	OnConfig                 func(level slog.Level)
	Pulse                    time.Duration
}

// Source returns the configuration in the options, with the settings that decide whether the configuration applies. It
// returns an error if the workspace is not a directory.
func (o Options) Source() (admission.Source, error) {
	workspace, err := roots.Workspace(o.Workspace)
	if err != nil {
		return admission.Source{}, err
	}
	return admission.Source{
		Source: config.Source{Path: o.Config, Environment: config.Environment{
			BundledDir: o.bundledDir(), Variables: o.Variables, VariableFiles: o.VariableFiles,
			Installed: trust.Installed, InstalledPackage: trust.InstalledPackage,
		}},
		Workspace: workspace, ReadOnly: o.ReadOnly, StateDir: cmp.Or(o.TrustDir, o.StateDir), Digests: o.Trust,
		Require: o.RequireTrust,
	}, nil
}

// Configuration reads the configuration.
func (o Options) Configuration() (*config.Config, error) {
	source, err := o.Source()
	if err != nil {
		return nil, err
	}
	return source.Open()
}

func (o Options) bundledDir() string {
	if o.BundledDir == "" {
		return BundledDir()
	}
	return o.BundledDir
}

// BundledDir returns the directory of the bundled plugins, which is "plugins" beside the executable.
func BundledDir() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if target, err := filepath.EvalSymlinks(exe); err == nil {
		exe = target
	}
	return filepath.Join(filepath.Dir(exe), "plugins")
}

// Mode selects how an engine starts. The zero value is for normal operation.
type Mode struct {
	// IgnorePins loads plugins even if they differ from their pins.
	IgnorePins bool
	// DescribeOnly ends the start of each plugin as soon as it has described itself.
	DescribeOnly bool
	// Unstarted starts no plugin before it is used; see [Engine.Ping].
	Unstarted bool
	// Empty ignores the configuration in the options and uses an empty configuration.
	Empty bool
	// Replace maps plugins to programs that serve them in place of the configured ones.
	Replace map[string]string
	// Programs starts the programs of plugins. If Programs is nil, the operating system starts them.
	Programs supervisor.Programs
}

// Engine is a running host. It is safe for concurrent use.
type Engine struct {
	opts     Options
	state    *state.DB
	locks    *state.Locks // nil if no other process can use the sessions
	home     state.Home
	super    *supervisor.Supervisor
	logs     *telemetry.PluginLog
	reloader *reload.Reloader
	live     live
	listing  atomic.Pointer[listing]
	ids      ids
	local    *Principal // the user of this process
	busy     busy
	running  running
	signals  signals
	flights  call.RunningCalls
	asking   asking
	siblings control.Hosts
	opening  sync.Mutex // locked by the method "open"
	cleaning sync.Once  // removes unused temporary directories of sessions
	closing  closing
	branches branch.Mounts
	// branchless returns the implementation of the tool "branch" for a session without a branch. It is nil if the host
	// has no branches.
	branchless func(call.Session) call.Branches
	fleet      fleet
}

type closing struct {
	once sync.Once
	done chan struct{} // closed when the engine closes
	err  error
	// problems lists the problems of the engine's components. A reload cannot solve these problems.
	problems []string
}

// New reads the configuration, loads the plugins and returns a running engine. See host.New.
func New(ctx context.Context, opts Options) (*Engine, error) { return NewMode(ctx, opts, Mode{}) }

// NewMode is like New, but starts in the given mode.
func NewMode(ctx context.Context, opts Options, mode Mode) (*Engine, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.BundledDir = opts.bundledDir()
	source, err := opts.Source()
	if err != nil {
		return nil, err
	}
	source.Empty = mode.Empty
	cfg, err := openConfig(source, opts.BundledDir)
	if err != nil {
		return nil, err
	}
	if opts.OnConfig != nil {
		opts.OnConfig(cfg.Host.LogLevel)
	}
	if err := cfg.ReplacePrograms(mode.Replace); err != nil {
		return nil, err
	}
	opts.Workspace = source.Workspace
	if err := generation.CheckHooks(opts.Hooks, cfg); err != nil {
		return nil, err
	}
	e := &Engine{opts: opts, ids: newIDs(), local: principal.LocalUser(), asking: newAsking(),
		closing: closing{done: make(chan struct{})}}
	e.logs = telemetry.NewPluginLog(func() string { return e.home.Logs() }, opts.Log)
	e.super = supervisor.New(supervisor.Options{
		HostVersion: Version, Log: opts.Log, Site: site{e}, Programs: mode.Programs,
	})
	if err := e.openState(cfg); err != nil {
		return nil, err
	}
	generation.Audit(cfg, e.state, e.logs)
	if dir := e.home.Locks(); dir != "" {
		e.locks = state.NewLocks(dir, e.state.Flush)
	}
	e.openReloader(source, cfg, mode)
	launcher, err := e.reloader.Builder.Launcher(cfg)
	if launcher == nil {
		return nil, errors.Join(err, e.state.Close())
	}
	pins, err := e.reloader.OpenPins(cfg)
	if err != nil {
		return nil, errors.Join(err, e.state.Close())
	}
	e.reloader.Builder.Trust(cfg, pins)
	if cfg.Untrusted != "" {
		e.problemf("%s.", cfg.Untrusted)
	}
	if err := e.reloader.Start(ctx, cfg, launcher); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if opts.Live {
		e.goLive()
	}
	return e, nil
}

// openReloader makes the reloader, which has no generation yet.
func (e *Engine) openReloader(source admission.Source, cfg *config.Config, mode Mode) {
	parts := e.parts(cfg)
	parts.Options.DescribeOnly, parts.Options.Unstarted = mode.DescribeOnly, mode.Unstarted
	e.reloader = reload.New(reload.Setup{
		Parts: parts, Source: source, Live: e.opts.Live, FixedStateDir: e.opts.StateDir != "",
		OpenPins: func(cfg *config.Config) (*trust.Pins, error) { return e.openPins(source, cfg, mode.IgnorePins) },
		OnConfig: e.opts.OnConfig, Published: e.configured, Log: e.opts.Log, CheckPlaces: e.checkPlaces,
	})
}

// openConfig opens the configuration. It returns an error if the built-in one has no plugins. Only a configuration of a
// person can want none.
func openConfig(source admission.Source, bundled string) (*config.Config, error) {
	cfg, err := source.Open()
	if err == nil && source.Path == "" && !source.Empty && len(cfg.Plugins) == 0 {
		err = fmt.Errorf("there are no plugins, because the directory %s has none: name the directory of a toolhost with Options.BundledDir, install toolhost again, or name plugins in a configuration", bundled)
	}
	return cfg, err
}

// parts creates the parts that all generations share.
func (e *Engine) parts(cfg *config.Config) generation.Parts {
	commands := shim.NewGranter(shim.GranterOptions{
		Beside: e.opts.BundledDir, Dir: e.home.Commands, RuntimeDir: e.super.RuntimeDir,
		InheritedFD: supervisor.InheritedFD, Log: e.opts.Log,
	})
	e.openBranches()
	confine := &confinement.Parts{
		Bundled: e.opts.BundledDir, Home: e.home, Commands: commands, Audit: e.state.AddAudit, Sum: e.state.BinaryHash,
		Log:      e.opts.Log,
		Branches: e.branches.Clone, Layer: e.branches.Layer, Refresh: e.branches.Refresh,
		Gate:         confinement.NewGate(e.state.AddAudit, e.opts.Log),
		Repositories: confinement.NewRepositories(e.home, e.state.AddAudit, e.opts.Log),
	}
	return generation.Parts{
		Options: generation.Options{Workspace: e.opts.Workspace, Hooks: e.opts.Hooks, RetryFailed: e.opts.RetryFailed,
			Records: e.opts.Live, Bundled: e.opts.BundledDir, Pulse: e.opts.Pulse},
		Calls: &generation.Calls{Scheduler: scheduler.New(cfg.Host.MaxParallel),
			Recorder: recorder.Recorder{Dir: e.home.Recordings(), Log: e.opts.Log}},
		State: e.state, Locks: e.locks, Home: e.home, Supervisor: e.super,
		Confine:   confine,
		Preview:   e.preview,
		Commands:  commands,
		Logins:    principal.NewLoginKeeper(principal.OpenLogins(e.home.Root), e.loadAfterLogin, e.opts.Log),
		Overrides: new(generation.Overrides),
		Log:       e.opts.Log,
		Logs:      e.logs,
	}
}

// site connects the processes of all plugins with the engine.
type site struct{ *Engine }

// Keep adds a line to the log of the plugin that printed it.
func (s site) Keep(l supervisor.Line) {
	s.logs.Write(telemetry.PluginLogEntry{
		Plugin: l.Plugin, PID: l.PID, Level: strings.ToLower(l.Level.String()), Message: l.Message, Fields: l.Fields,
	})
}

// Changes returns what changed below a branch.
func (s site) Changes(branch string, since uint64) (i tool.Invalidation, now uint64) {
	return s.branches.Changes(branch, since)
}

// openState opens the state database. If the database cannot be opened, openState uses a database in memory and reports
// a problem. Sessions then last only as long as the process. openState returns an error if tools or other users can
// write to the state directory.
func (e *Engine) openState(cfg *config.Config) error {
	e.home.Runtime = e.super.RuntimeDir
	e.siblings.Dir, e.siblings.Share = func() string { return e.home.Control() }, e.Share
	dir, err := state.FindDir(e.opts.StateDir, cfg.Host.StateDir)
	if err == nil {
		if err := state.CheckOwner(dir); err != nil {
			return err
		}
		e.state, err = state.Open(dir, e.opts.Log)
	}
	if err == nil {
		e.home.Root, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		return e.checkPlace(cfg)
	}
	e.problemf("Sessions are not kept after this run: %v.", err)
	if e.state, err = state.OpenFallback(func() (*state.DB, error) { return e.reopenState(cfg) },
		e.opts.Log); err != nil {
		panic("engine: an in-memory database cannot be opened: " + err.Error()) // occurs only if no memory is available
	}
	return e.checkPlace(cfg)
}

// reopenState retries to open the state database after openState failed. Only the audit log uses the returned database.
func (e *Engine) reopenState(cfg *config.Config) (*state.DB, error) {
	dir, err := state.FindDir(e.opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil, err
	}
	if err := state.CheckOwner(dir); err != nil {
		return nil, err
	}
	db, err := state.Open(dir, e.opts.Log)
	if err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = (&roots.Places{State: dir, Target: root}).StateOutside(cfg, e.opts.Workspace)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkPlace is like checkPlaces for the start of a host. If only the directory of recordings is wrong, the host
// starts, and records nothing. If checkPlace returns an error, it also closes the database.
func (e *Engine) checkPlace(cfg *config.Config) error {
	if err := roots.RecordingsOutside(cfg, e.opts.Workspace); err != nil {
		e.problemf("Sessions are not recorded, because %v.", err)
		unrecorded := *cfg
		unrecorded.Record.Dir, cfg = "", &unrecorded
	}
	if err := e.checkPlaces(cfg); err != nil {
		return errors.Join(err, e.state.Close())
	}
	return nil
}

// checkPlaces returns an error if tools can reach a place that only the host must use; see [roots.Places].
func (e *Engine) checkPlaces(cfg *config.Config) error {
	return e.places(cfg).Check(cfg, e.opts.Workspace)
}

// places returns the files of the host that tools must not change.
func (e *Engine) places(cfg *config.Config) *roots.Places {
	dir := e.home.Root
	if found, err := state.FindDir(e.opts.StateDir, cfg.Host.StateDir); err == nil && e.home.Root != "" {
		dir = found
	}
	return &roots.Places{State: dir, Target: e.home.Root, Secrets: e.opts.Secrets, Workspaces: e.opts.Workspaces}
}

func (e *Engine) problemf(format string, a ...any) {
	e.closing.problems = append(e.closing.problems, fmt.Sprintf(format, a...))
}

// Problems lists all known failures of the host, such as plugins that were not loaded and tools that were not
// registered.
func (e *Engine) Problems() []string {
	out := slices.Concat(e.closing.problems, e.Current().Problems)
	if err := e.state.AuditProblem(); err != nil {
		out = append(out, "The audit log cannot be written: "+err.Error()+".")
	}
	return out
}

// NewProblems returns the known failures. It omits a failure of a plugin or of its tools if an earlier call of
// NewProblems already returned this failure for the same configuration. Therefore a run of one command reports a broken
// plugin once, and again after a change. Failures that are not about plugins, such as an untrusted configuration or a
// weaker sandbox, are returned each time.
func (e *Engine) NewProblems() []string {
	g := e.Current()
	if e.home.Root == "" {
		return e.Problems()
	}
	return generation.NewProblems(e.Problems(), g.Broken, filepath.Join(e.home.Root, "reported"), g.Config.Path)
}

// Current returns the generation for new calls.
func (e *Engine) Current() *generation.Generation { return e.reloader.Current() }

// Reloader returns the reloader, which can replace the current generation.
func (e *Engine) Reloader() *reload.Reloader { return e.reloader }

// Siblings returns the other hosts with the same state directory.
func (e *Engine) Siblings() *control.Hosts { return &e.siblings }

// State returns the state database.
func (e *Engine) State() *state.DB { return e.state }

// openPins opens the pins of a configuration. If ignore is true, the host checks only files that tools can write.
func (e *Engine) openPins(source admission.Source, cfg *config.Config, ignore bool) (*trust.Pins, error) {
	own := func(plugin string) bool {
		p := cfg.Plugin(plugin)
		return p != nil && !p.Mounted && filepath.Dir(p.Path) == filepath.Clean(e.opts.BundledDir)
	}
	return trust.OpenPins(trust.PinOptions{
		Config: cfg.Path, Own: own, Ignore: ignore, Hash: e.state.BinaryHash, Guard: source.Guard(cfg),
		CheckStart: source.CheckStart(cfg), Dir: e.home.Pinned,
	})
}

// closeGrace is the time within which plugins must stop.
const closeGrace = 5 * time.Second

// Close cancels all calls, stops every plugin and saves the sessions. It returns after all plugin processes exit.
// Repeated calls return the same error.
func (e *Engine) Close() error {
	e.closing.once.Do(func() {
		close(e.closing.done)
		builder := e.reloader.Builder
		e.reloader.Close()
		e.live.close()
		e.reloader.CloseHooks()
		var flushed sync.WaitGroup
		flushed.Go(func() { _ = e.state.Flush() }) // while the plugins end; the Close below writes the rest and reports errors
		e.super.Close(closeGrace)
		flushed.Wait()
		e.branches.Close()
		searched := builder.Confine.Repositories.Close() // run after the last process exits, and before the audit log closes
		builder.Calls.Recorder.Close()
		builder.Commands.Close()
		builder.Logins.Close()
		builder.Close()
		e.closing.err = errors.Join(searched, e.state.Close())
		e.locks.Close() // from here on, other processes can use the sessions
	})
	return e.closing.err
}
