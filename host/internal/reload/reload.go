// Package reload changes a running host from one generation to the next: it reads the configuration again, tries out what
// is new beside what is serving, and publishes all of it in one step. Most callers want [Reloader.Reload].
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

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
)

// Options says what to reload. The zero value reloads the configuration if it changed, and every plugin whose binary
// changed.
type Options struct {
	// Plugins are replaced whether or not their binaries changed. If it is not empty, nothing else is reloaded.
	Plugins []string
	// AcceptChanges publishes versions that lack tools or parameters of the ones before, or whose calling conventions
	// differ. Otherwise they are refused, unless the configuration says reload { changes = "any" }.
	AcceptChanges bool
	// ApprovePrivileges applies a configuration that increases privileges if the current one demands approval:
	// reload { privilege_increases = "approve" }.
	ApprovePrivileges bool

	// dry neither publishes nor remembers anything.
	dry bool
	// automatic skips what was refused before, because nobody asked for the reload.
	automatic bool
}

// Automatic are the options of a reload that nobody asked for: what was refused before is not tried again.
var Automatic = Options{automatic: true}

// Report is the outcome of a reload.
type Report struct {
	// Config is the outcome for the configuration.
	Config ConfigReport `json:"config"`
	// Plugins lists the plugins that were replaced or refused, in the order of the configuration.
	Plugins []PluginReport `json:"plugins"`
	// Problems describes everything that does not work now.
	Problems []string `json:"problems,omitempty"`
}

// ConfigReport is the outcome of a reload for the configuration.
type ConfigReport struct {
	// Changed reports whether another configuration is used now.
	Changed bool `json:"changed"`
	// Refused says why the configuration on disk is not used, with file and line. Empty means that it is.
	Refused string `json:"refused,omitempty"`
}

// PluginReport is the outcome of a reload for one plugin.
type PluginReport struct {
	Name string `json:"name"`
	// Outcome is "swapped", "added", "removed" or "refused".
	Outcome string `json:"outcome"`
	// From and To are the plugin's own versions. An empty one is unknown or does not exist.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Changes are the differences between the tools' definitions.
	Changes []registry.Change `json:"changes,omitempty"`
	// Draining counts the calls that end on the old version.
	Draining int64 `json:"draining,omitempty"`
	// Refused says why the old version goes on serving, and what to do.
	Refused string `json:"refused,omitempty"`
}

// The outcomes of a plugin's reload.
const (
	Swapped = "swapped"
	Added   = "added"
	Removed = "removed"
	Refused = "refused"
)

// Refused reports whether anything was refused.
func (r *Report) Refused() bool {
	return r.Config.Refused != "" || slices.ContainsFunc(r.Plugins, func(p PluginReport) bool { return p.Outcome == Refused })
}

// Setup says what a [Reloader] works on.
type Setup struct {
	Builder *generation.Builder
	Source  config.Source
	// Live keeps what is in use for plans that are made while no host is running.
	Live bool
	// FixedStateDir says that the configuration does not choose the state directory.
	FixedStateDir bool
	// OnConfig is called with the log level of each new configuration. Nil means that nobody is.
	OnConfig func(slog.Level)
	// Published is called after another configuration was published.
	Published func(*config.Config)
	Log       *slog.Logger
}

// Reloader owns the current generation. It is safe for concurrent use.
type Reloader struct {
	Setup
	current  atomic.Pointer[generation.Generation]
	lives    registry.Lives
	progress progress
	updates  Feed[Update]
	states   Feed[registry.Transition]
	notifier hook.Notifier
}

// New returns a reloader without a generation. Call [Reloader.Start] once.
func New(s Setup) *Reloader {
	r := &Reloader{Setup: s}
	r.lives.Notify = r.states.send
	s.Builder.Current = r.Current
	s.Builder.Rediscovered = r.rediscovered
	return r
}

// Start builds and publishes the first generation. The error is about the operator's rules, without which no call may run.
func (r *Reloader) Start(ctx context.Context, cfg *config.Config, launcher *confinement.Launcher) error {
	r.progress.seen = r.disk(cfg)
	r.warn(cfg)
	g, err := r.Builder.Load(ctx, cfg, launcher)
	r.install(g)
	if err != nil {
		return err
	}
	r.notifyHooks(nil, g)
	if r.Live {
		r.keepApplied(g)
	}
	return nil
}

// Current returns the published generation. It is nil before Start.
func (r *Reloader) Current() *generation.Generation { return r.current.Load() }

// Lives returns the states of all tools.
func (r *Reloader) Lives() []registry.LifeStatus { return r.lives.Status() }

// Updates is the feed of what reloads and operators change, after calls see it.
func (r *Reloader) Updates() *Feed[Update] { return &r.updates }

// States is the feed of transitions in the lives of tools.
func (r *Reloader) States() *Feed[registry.Transition] { return &r.states }

// Refusal returns why a plugin's version on disk is not the one that serves, or "" if it is.
func (r *Reloader) Refusal(plugin string) string { return r.progress.refusal(plugin) }

// ConfigRefusal returns why the configuration on disk is not the one in use, or "" if it is.
func (r *Reloader) ConfigRefusal() string { return r.progress.configRefusal() }

// Close ends the reload that is under way. No reload begins afterwards. Call CloseHooks after the last call.
func (r *Reloader) Close() { r.progress.close() }

// CloseHooks waits briefly for notifications of hooks.
func (r *Reloader) CloseHooks() { r.notifier.Close() }

// maxRestarts is how often a reload begins again because something changes under it.
const maxRestarts = 100

// busyPause is how long a reload waits for a binary that is being written.
const busyPause = 100 * time.Millisecond

// Reload applies what changed: the configuration, and binaries of plugins. A new version is started beside the old one and
// checked: handshake, description, configuration, health. Then everything is published in one step; calls that have begun
// end on the version that they began with. A version that fails a check is refused, and the old one goes on serving. If a
// part of the configuration fails, all of the old one stays in use.
//
// If something changes during a reload, the newest state is published. Reloads run one after the other. The error says that
// nothing was tried: a plugin is unknown, ctx ended, or the host is being closed.
func (r *Reloader) Reload(ctx context.Context, opts Options) (*Report, error) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
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
	if !r.progress.begin(cancel, r.disk(r.Current().Config)) {
		return nil, errClosing
	}
	defer r.progress.end()
	a := newAttempt(r, opts)
	for _, name := range opts.Plugins {
		if a.old.Plugin(name) == nil {
			return nil, fmt.Errorf("there is no plugin %q: toolhost status lists them", name)
		}
	}
	a.readConfig()
	a.prepare()
	a.try(ctx)
	if err := a.checkSuperseded(ctx); err != nil {
		a.discard()
		return nil, err
	}
	a.publish()
	return a.report, nil
}

// disk describes the state of the files that a configuration depends on. Two descriptions differ if a file changed.
func (r *Reloader) disk(cfg *config.Config) string {
	var b strings.Builder
	for _, path := range r.Source.Files(cfg) {
		fmt.Fprintf(&b, "%q %s\n", path, state.FileIdentity(path))
	}
	return b.String()
}

// DiskChanged calls begin if a reload must begin because files changed. A reload that is under way begins again instead if
// it has read something else.
func (r *Reloader) DiskChanged(begin func()) {
	r.progress.changed(r.disk(r.Current().Config), begin)
}

// warn logs what works in a configuration and should be changed.
func (r *Reloader) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		r.Log.Warn(w.Summary+". "+w.Detail, "file", w.File, "line", w.Line)
	}
}

// install makes a generation the current one.
func (r *Reloader) install(g *generation.Generation) {
	r.Builder.Approvals().Report(g.Reviews)
	r.lives.Publish(g.Registry, g.Suspended)
	r.current.Store(g)
}
