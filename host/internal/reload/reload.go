// Package reload replaces the generation of a running host. It reads the configuration again, tests new plugin versions
// while the old versions run, and publishes all changes in one step. Most callers want [Reloader.Reload].
package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trust"
)

// Options selects what to reload. The zero value reloads a changed configuration and every plugin with a changed
// binary.
type Options struct {
	// Plugins lists plugins to replace even if their binaries did not change. If Plugins is not empty, the reload
	// ignores all other plugins.
	Plugins []string
	// AcceptChanges accepts incompatible plugin versions. An incompatible version lacks a tool or a parameter, or
	// changes how a tool is called. Without AcceptChanges, the reload rejects incompatible versions unless the
	// configuration sets reload { changes = "any" }.
	AcceptChanges bool
	// ApprovePrivileges accepts a configuration that increases privileges. The option is necessary if the current
	// configuration sets reload { privilege_increases = "approve" }.
	ApprovePrivileges bool

	// By is the name of the principal that requested the reload, for the audit log. Empty means the user of the host.
	By string

	// dry prevents the reload from publishing or recording its results.
	dry bool
	// automatic is set for a reload that no user requested. Such a reload skips versions that were rejected
	// earlier.
	automatic bool
}

// Automatic contains the options for a reload that no user requested. Such a reload skips versions that were rejected
// earlier.
var Automatic = Options{automatic: true, By: "(watcher)"}

// Report describes the outcome of a reload.
type Report struct {
	// Config is the outcome of the reload for the configuration.
	Config ConfigReport `json:"config"`
	// Plugins lists the replaced and rejected plugins, in the order of the configuration.
	Plugins []PluginReport `json:"plugins"`
	// Problems lists all known failures of the host after the reload.
	Problems []string `json:"problems,omitempty"`
}

// ConfigReport describes the outcome of a reload for the configuration.
type ConfigReport struct {
	// Changed reports whether the reload changed the configuration.
	Changed bool `json:"changed"`
	// Refused is the reason why the host does not use the configuration on disk, with file and line. Empty means that
	// the host uses it.
	Refused string `json:"refused,omitempty"`
	// Restricted describes the rights that the refused configuration takes away. The host applies these restrictions
	// although it refused the configuration.
	Restricted []string `json:"restricted,omitempty"`
}

// PluginReport describes the outcome of a reload for one plugin.
type PluginReport struct {
	Name string `json:"name"`
	// Outcome is "swapped", "added", "removed", "refused" or "rolling out".
	Outcome string `json:"outcome"`
	// From and To are the versions that the plugin reports before and after the reload. Empty means that the version is
	// unknown or that the plugin does not exist.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Changes are the differences between the tool definitions of the two versions.
	Changes []registry.Change `json:"changes,omitempty"`
	// Draining is the number of running calls on the old version.
	Draining int64 `json:"draining,omitempty"`
	// Refused is the reason why the host keeps the old version, with a remedy.
	Refused string `json:"refused,omitempty"`
}

// Outcomes of a reload for a plugin.
const (
	Swapped = "swapped"
	Added   = "added"
	Removed = "removed"
	Refused = "refused"
	// RollingOut means that the new version is taken into service step by step.
	RollingOut = "rolling out"
)

// Refused reports whether the reload rejected the configuration or a plugin.
func (r *Report) Refused() bool {
	return r.Config.Refused != "" ||
		slices.ContainsFunc(r.Plugins, func(p PluginReport) bool { return p.Outcome == Refused })
}

// Setup holds the settings of a [Reloader].
type Setup struct {
	Parts  generation.Parts
	Source admission.Source
	// OpenPins opens the pins of a configuration.
	OpenPins func(*config.Config) (*trust.Pins, error)
	// Live saves the current settings. If no host is running, later plans compare a new configuration with these
	// settings.
	Live bool
	// FixedStateDir reports that the state directory does not depend on the configuration.
	FixedStateDir bool
	// CheckPlaces returns an error if, under a configuration, tools could write to files of the host. It can be nil.
	CheckPlaces func(*config.Config) error
	// OnConfig is called with the log level of each new configuration. OnConfig can be nil.
	OnConfig func(slog.Level)
	// Published is called after each publication of a new configuration.
	Published func(*config.Config)
	Log       *slog.Logger
}

// Reloader holds the current generation and replaces it. It is safe for concurrent use.
type Reloader struct {
	Setup
	Builder  *generation.Builder
	current  atomic.Pointer[generation.Generation]
	lives    registry.Lives
	progress progress
	updates  Feed[Update]
	states   Feed[registry.Transition]
	notices  Feed[Notice]
	notifier hook.Notifier
	// candidates contains the new versions that are rolled out. progress.one protects it.
	candidates map[string]*candidate
}

// New returns a reloader without a generation. The caller must call [Reloader.Start] once.
func New(s Setup) *Reloader {
	r := &Reloader{Setup: s}
	r.lives.Notify = r.states.send
	r.Builder = generation.NewBuilder(s.Parts, r)
	return r
}

// Notified implements [generation.Owner].
func (r *Reloader) Notified(p *generation.Plugin, n supervisor.Notice) {
	r.notices.send(Notice{Plugin: p.Name, Notice: n})
}

// Start builds and publishes the first generation. If Start returns an error, the error lists invalid permission rules.
// The caller must then prevent all calls, because these rules do not apply.
func (r *Reloader) Start(ctx context.Context, cfg *config.Config, launcher *confinement.Launcher) error {
	r.progress.seen = r.disk(cfg)
	r.warn(cfg)
	g, err := r.Builder.Load(ctx, cfg, launcher)
	r.install(g)
	if err != nil {
		return err
	}
	r.notifyHooks(nil, g)
	r.Builder.KeepVersions(cfg, g.Plugins)
	r.resumeRollouts(g)
	if r.Live {
		r.keepServed(g, "(start)")
	}
	return nil
}

// Current returns the published generation. It returns nil before Start.
func (r *Reloader) Current() *generation.Generation { return r.current.Load() }

// Lives returns the states of all tools.
func (r *Reloader) Lives() []registry.LifeStatus { return r.lives.Status() }

// Updates returns the feed of changes that reloads and operators make. When a subscriber receives an update, new calls
// already use the changes.
func (r *Reloader) Updates() *Feed[Update] { return &r.updates }

// States returns the feed of state transitions of tools.
func (r *Reloader) States() *Feed[registry.Transition] { return &r.states }

// Notice is a notification of a plugin for MCP clients.
type Notice struct {
	Plugin string
	supervisor.Notice
}

// Notices returns the feed of notifications of plugins for MCP clients.
func (r *Reloader) Notices() *Feed[Notice] { return &r.notices }

// Refusal returns the reason why the host does not use a plugin's version on disk. It returns "" if the host uses it.
func (r *Reloader) Refusal(plugin string) string { return r.progress.refusal(plugin) }

// ConfigRefusal returns the reason why the host does not use the configuration on disk. It returns "" if the host uses
// it.
func (r *Reloader) ConfigRefusal() string { return r.progress.configRefusal() }

// Close cancels the running reload. Later reloads cannot start. After the last call, the caller must also call
// CloseHooks.
func (r *Reloader) Close() { r.progress.close() }

// CloseHooks waits a short time until queued notifications have reached their hooks.
func (r *Reloader) CloseHooks() { r.notifier.Close() }

// maxRestarts limits how often a reload starts again because files changed.
const maxRestarts = 100

// busyPause is the time that a reload waits while another program writes a binary.
const busyPause = 100 * time.Millisecond

// Reload applies changes of the configuration and of plugin binaries. It starts each new version beside the old version
// and checks handshake, description, configuration and health. Then it publishes all changes in one step. Running calls
// end on the version on which they started.
//
// A version that fails a check is rejected, and the old version continues to serve. If a part of a new configuration
// fails, the host keeps the old configuration, but applies the restrictions in the new configuration.
//
// If files change during a reload, the reload restarts to publish the newest state. Only one reload runs at a time.
// Reload returns an error if a plugin is unknown, ctx is canceled, or the host is closing. No change is applied in
// these cases.
func (r *Reloader) Reload(ctx context.Context, opts Options) (*Report, error) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	return r.reload(ctx, opts)
}

// reload does the work of Reload. The caller must hold progress.one.
func (r *Reloader) reload(ctx context.Context, opts Options) (*Report, error) {
	defer r.progress.finish()
	for n := 0; ; n++ {
		out, err := r.attempt(ctx, opts)
		if !errors.Is(err, errSuperseded) {
			return out, err
		}
		if n == maxRestarts {
			return nil, errors.New("nothing was reloaded: binaries or the configuration keep changing")
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *Reloader) attempt(ctx context.Context, opts Options) (*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !r.progress.begin(cancel, r.disk(r.Current().Config), len(opts.Plugins) > 0) {
		return nil, errClosing
	}
	defer r.progress.end()
	a := newAttempt(r, opts)
	for _, name := range opts.Plugins {
		if a.old.Plugin(name) == nil {
			return nil, fmt.Errorf("unknown plugin %q; for a list run toolhost status", name)
		}
	}
	a.readConfig()
	a.prepare()
	a.try(ctx)
	if err := a.tryConfig(ctx); err != nil && ctx.Err() == nil {
		a.rollBack(ctx, err)
	}
	if err := a.checkSuperseded(ctx); err != nil {
		a.discard()
		return nil, err
	}
	a.divert()
	a.publish(context.WithoutCancel(ctx))
	r.record(a)
	return a.report, nil
}

// Files lists the files that the host must watch. A change of such a file can change the effective configuration.
func (r *Reloader) Files(cfg *config.Config) []string {
	seen := make(map[string]bool) // many mounted servers share one binary
	return slices.DeleteFunc(slices.Concat(r.Source.Files(cfg), r.Source.Watched()), func(path string) bool {
		again := seen[path]
		seen[path] = true
		return again
	})
}

// disk returns a text that describes the state of the configuration's files. The text changes with every
// change of a file.
func (r *Reloader) disk(cfg *config.Config) string {
	var b strings.Builder
	for _, path := range r.Files(cfg) {
		fmt.Fprintf(&b, "%q %s\n", path, records.Identity(path))
	}
	return b.String()
}

// DiskChanged must be called after a change of the files. If no reload is running, it calls the function "begin". If a
// running reload read older files, it restarts this reload.
func (r *Reloader) DiskChanged(begin func()) {
	r.progress.changed(r.disk(r.Current().Config), begin)
}

// warn logs the warnings of a configuration.
func (r *Reloader) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		r.Log.Warn(w.Summary+". "+w.Detail, "file", w.File, "line", w.Line)
	}
}

// install makes a generation the current generation.
func (r *Reloader) install(g *generation.Generation) {
	r.Builder.Approvals(g.Config).Report(g.Reviews)
	r.lives.Publish(g.Registry, g.Suspended)
	r.current.Store(g)
	g.Settle()
}
