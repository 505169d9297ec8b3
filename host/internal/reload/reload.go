// Package reload replaces the generation of a running host. It reads the configuration again, tests new plugin versions
// beside the running ones, and publishes all changes in one step. Most callers want [Reloader.Reload].
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
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
)

// Options selects what to reload. The zero value reloads a changed configuration and every plugin with a changed binary.
type Options struct {
	// Plugins lists plugins to replace even if their binaries are unchanged. If Plugins is not empty, only these plugins
	// are reloaded.
	Plugins []string
	// AcceptChanges also accepts incompatible versions, which lack tools or parameters or change calling conventions.
	// Otherwise such versions are rejected, unless the configuration sets reload { changes = "any" }.
	AcceptChanges bool
	// ApprovePrivileges also applies a configuration that increases privileges. This is needed if the current
	// configuration sets reload { privilege_increases = "approve" }.
	ApprovePrivileges bool

	// dry neither publishes nor records results.
	dry bool
	// automatic marks a reload that no user requested. It skips versions that were rejected earlier.
	automatic bool
}

// Automatic holds the options of a reload that no user requested. Such a reload does not try rejected versions again.
var Automatic = Options{automatic: true}

// Report describes the outcome of a reload.
type Report struct {
	// Config is the outcome for the configuration.
	Config ConfigReport `json:"config"`
	// Plugins lists the replaced and rejected plugins, in the order of the configuration.
	Plugins []PluginReport `json:"plugins"`
	// Problems lists everything that does not work after the reload.
	Problems []string `json:"problems,omitempty"`
}

// ConfigReport describes the outcome of a reload for the configuration.
type ConfigReport struct {
	// Changed reports whether the reload changed the configuration.
	Changed bool `json:"changed"`
	// Refused is the reason why the configuration on disk is not in use, with file and line. Empty means that it is in
	// use.
	Refused string `json:"refused,omitempty"`
}

// PluginReport describes the outcome of a reload for one plugin.
type PluginReport struct {
	Name string `json:"name"`
	// Outcome is "swapped", "added", "removed" or "refused".
	Outcome string `json:"outcome"`
	// From and To are the versions that the plugin reports. Empty means that the version is unknown or does not exist.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Changes are the differences between the tool definitions of the two versions.
	Changes []registry.Change `json:"changes,omitempty"`
	// Draining is the number of calls that are still running on the old version.
	Draining int64 `json:"draining,omitempty"`
	// Refused explains why the old version continues to serve, with a remedy.
	Refused string `json:"refused,omitempty"`
}

// Outcomes of a reload for a plugin.
const (
	Swapped = "swapped"
	Added   = "added"
	Removed = "removed"
	Refused = "refused"
)

// Refused reports whether the configuration or a plugin was rejected.
func (r *Report) Refused() bool {
	return r.Config.Refused != "" || slices.ContainsFunc(r.Plugins, func(p PluginReport) bool { return p.Outcome == Refused })
}

// Setup holds the settings of a [Reloader].
type Setup struct {
	Builder *generation.Builder
	Source  admission.Source
	// OpenPins returns the pins of a configuration.
	OpenPins func(*config.Config) (*trust.Pins, error)
	// Live saves the settings in use, so that later plans can compare with them when no host is running.
	Live bool
	// FixedStateDir reports that the state directory does not depend on the configuration.
	FixedStateDir bool
	// OnConfig is called with the log level of each new configuration. It can be nil.
	OnConfig func(slog.Level)
	// Published is called after the publication of a new configuration.
	Published func(*config.Config)
	Log       *slog.Logger
}

// Reloader holds the current generation and replaces it. It is safe for concurrent use.
type Reloader struct {
	Setup
	current  atomic.Pointer[generation.Generation]
	lives    registry.Lives
	progress progress
	updates  Feed[Update]
	states   Feed[registry.Transition]
	notifier hook.Notifier
}

// New returns a reloader without a generation. The caller must call [Reloader.Start] once.
func New(s Setup) *Reloader {
	r := &Reloader{Setup: s}
	r.lives.Notify = r.states.send
	s.Builder.Current = r.Current
	s.Builder.Rediscovered = r.rediscovered
	return r
}

// Start builds and publishes the first generation. The error lists invalid permission rules. No call must run without
// these rules.
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

// Current returns the published generation. It returns nil before Start.
func (r *Reloader) Current() *generation.Generation { return r.current.Load() }

// Lives returns the states of all tools.
func (r *Reloader) Lives() []registry.LifeStatus { return r.lives.Status() }

// Updates returns the feed of changes by reloads and operators. Updates are sent after new calls use the changes.
func (r *Reloader) Updates() *Feed[Update] { return &r.updates }

// States returns the feed of state transitions of tools.
func (r *Reloader) States() *Feed[registry.Transition] { return &r.states }

// Refusal returns the reason why a plugin's version on disk is not in use. It returns "" if the version is in use.
func (r *Reloader) Refusal(plugin string) string { return r.progress.refusal(plugin) }

// ConfigRefusal returns the reason why the configuration on disk is not in use. It returns "" if the configuration is in
// use.
func (r *Reloader) ConfigRefusal() string { return r.progress.configRefusal() }

// Close cancels the running reload. No reload can start afterwards. The caller must call CloseHooks after the last call.
func (r *Reloader) Close() { r.progress.close() }

// CloseHooks waits a short time for notifications of hooks to finish.
func (r *Reloader) CloseHooks() { r.notifier.Close() }

// maxRestarts limits how often a reload restarts because files change during it.
const maxRestarts = 100

// busyPause is the time that a reload waits for a binary that is still being written.
const busyPause = 100 * time.Millisecond

// Reload applies changes of the configuration and of plugin binaries. It starts each new version beside the old version
// and checks handshake, description, configuration and health. Then it publishes all changes in one step. Running calls
// finish on their old version.
//
// A version that fails a check is rejected, and the old version continues to serve. If a part of a new configuration
// fails, the whole old configuration stays in use.
//
// If files change during a reload, the reload restarts to publish the newest state. Only one reload runs at a time.
// Reload returns an error if a plugin is unknown, ctx is canceled, or the host is closing. No change is applied in these
// cases.
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
			return nil, fmt.Errorf("unknown plugin %q; for a list run toolhost status", name)
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

// Files lists the files whose change can change what applies.
func (r *Reloader) Files(cfg *config.Config) []string {
	return slices.Concat(r.Source.Files(cfg), r.Source.Watched())
}

// disk describes the state of the files that a configuration depends on. The description changes whenever a file
// changes.
func (r *Reloader) disk(cfg *config.Config) string {
	var b strings.Builder
	for _, path := range r.Files(cfg) {
		fmt.Fprintf(&b, "%q %s\n", path, state.FileIdentity(path))
	}
	return b.String()
}

// DiskChanged handles changed files. It calls begin if no reload is running. It restarts a running reload that read an
// older state of the files.
func (r *Reloader) DiskChanged(begin func()) {
	r.progress.changed(r.disk(r.Current().Config), begin)
}

// warn logs the warnings of a configuration.
func (r *Reloader) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		r.Log.Warn(w.Summary+". "+w.Detail, "file", w.File, "line", w.Line)
	}
}

// install makes a generation the current one.
func (r *Reloader) install(g *generation.Generation) {
	r.Builder.Approvals(g.Config).Report(g.Reviews)
	r.lives.Publish(g.Registry, g.Suspended)
	r.current.Store(g)
}
