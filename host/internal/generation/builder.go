package generation

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/trust"
)

// Options configures a builder.
type Options struct {
	// Workspace is the default workspace of sessions.
	Workspace string
	// Hooks contains the hooks of the embedding program.
	Hooks []hook.Hook
	// RetryFailed also starts plugins whose last start failed recently after a long time.
	RetryFailed bool
	// DescribeOnly ends the start of a plugin as soon as it has described itself. The plugin is not configured.
	DescribeOnly bool
	// Unstarted starts no plugin to get its description. Plugins without a saved description fail with ErrUnstarted.
	Unstarted bool
	// Records permits the host to begin recordings. It is false for a host that runs only one command, because the tape
	// of each command would contain the whole workspace.
	Records bool
	// Bundled is the directory of the bundled plugins.
	Bundled string
	// Pulse is the time without events after which the client of a call receives a heartbeat. Zero means the default.
	Pulse time.Duration
}

// Calls holds the state that calls of all generations share.
type Calls struct {
	Scheduler *scheduler.Scheduler
	Gates     scheduler.Gates
	Quota     quota.Set
	Recorder  recorder.Recorder
	Rollouts  rollout.Set
	Metrics   telemetry.Metrics
	Adaptive  adaptive.Learned
	Finder    help.Index
	Roots     roots.Epoch
}

// Owner publishes generations. Package reload implements it.
type Owner interface {
	// Current returns the published generation. It returns nil before the first publication.
	Current() *Generation
	// Notified is called for each notification that a plugin sends to MCP clients. It must not block.
	Notified(p *Plugin, n supervisor.Notice)
	// Rediscovered is called if a running plugin changes its tools.
	Rediscovered(p *Plugin, now *tool.Description)
}

// Parts are the parts of a host that its generations share.
type Parts struct {
	Options    Options
	Calls      *Calls
	State      *state.DB
	Locks      *state.Locks // nil if no other process can use the sessions
	Home       state.Home
	Supervisor *supervisor.Supervisor
	Confine    *confinement.Parts
	Commands   *shim.Granter
	Logins     *principal.LoginKeeper
	Overrides  *Overrides
	Log        *slog.Logger
	// Logs stores the lines that plugins print. If Logs is nil, the lines are discarded.
	Logs *telemetry.PluginLog
	// Preview begins the preview of a call; see [dispatch.Host].
	Preview func(s call.Session) (call.Preview, error)
}

// Builder builds generations. All methods except Trust are safe for concurrent use.
type Builder struct {
	Parts
	owner   Owner
	vetting vetting
	tracing tracing
}

// NewBuilder returns a builder of the generations that an owner publishes.
func NewBuilder(p Parts, owner Owner) *Builder { return &Builder{Parts: p, owner: owner} }

// vetted holds the pins and the approvals of one configuration.
type vetted struct {
	pins      *trust.Pins
	approvals *trust.Approvals
}

// vetting maps the path of each configuration to its pins and approvals.
type vetting struct {
	mu   sync.Mutex
	by   map[string]vetted
	last vetted
}

// Trust sets the pins and the approvals that the builder enforces for a configuration.
func (b *Builder) Trust(cfg *config.Config, pins *trust.Pins) {
	b.vetting.mu.Lock()
	defer b.vetting.mu.Unlock()
	if b.vetting.by == nil {
		b.vetting.by = make(map[string]vetted)
	}
	b.vetting.last = vetted{pins, trust.NewApprovals(b.State, pins, b.Options.Bundled, b.Log)}
	b.vetting.by[cfg.Path] = b.vetting.last
}

// vet returns the pins and the approvals of a configuration.
func (v *vetting) vet(cfg *config.Config) vetted {
	v.mu.Lock()
	defer v.mu.Unlock()
	if out, ok := v.by[cfg.Path]; ok {
		return out
	}
	return v.last
}

// Pins returns the pins that the builder enforces for a configuration. A nil cfg means the configuration of the last
// call of Trust.
func (b *Builder) Pins(cfg *config.Config) *trust.Pins { return b.vetted(cfg).pins }

// Approvals returns the approvals that the builder enforces for a configuration. A nil cfg means the configuration of
// the last call of Trust.
func (b *Builder) Approvals(cfg *config.Config) *trust.Approvals { return b.vetted(cfg).approvals }

func (b *Builder) vetted(cfg *config.Config) vetted {
	if cfg == nil {
		b.vetting.mu.Lock()
		defer b.vetting.mu.Unlock()
		return b.vetting.last
	}
	return b.vetting.vet(cfg)
}

// Close sends the traces that are still queued.
func (b *Builder) Close() { b.tracing.close() }

// Roots returns the roots of sessions under a configuration.
func (b *Builder) Roots(cfg *config.Config) *roots.Sets {
	return roots.New(cfg, &b.Calls.Roots, b.Home.Output)
}

// Launcher returns the launcher for a configuration. The error lists plugins that require confinement but cannot be
// confined. Load does not load these plugins, so a caller of Load can ignore the error if the launcher is not nil.
func (b *Builder) Launcher(cfg *config.Config) (*confinement.Launcher, error) {
	l := confinement.New(cfg, b.Confine)
	l.List(privilege.ListedPrograms(cfg))
	if err := roots.Check(cfg); err != nil {
		return nil, err
	}
	return l, l.Check(roots.Configured(cfg, b.Options.Workspace))
}

// Peers returns a plugin of the new generation by name.
type Peers func(name string) *Plugin

// Environment contains the settings and objects that all plugins of a configuration share. Most callers want
// [Builder.Environment].
type Environment struct {
	Config   *config.Config
	Launcher *confinement.Launcher
	Peers    Peers
	Roots    []tool.Root // of calls without a session, in the default workspace
}

// Environment returns the environment for plugins of a configuration, with the roots that exist now.
func (b *Builder) Environment(cfg *config.Config, launcher *confinement.Launcher, peers Peers) *Environment {
	return &Environment{
		Config: cfg, Launcher: launcher, Peers: peers, Roots: b.Roots(cfg).Of("", b.Options.Workspace, true),
	}
}

// NewPlugin adds a plugin to the supervisor without starting it. The function "accept" checks the plugin's first
// description. A nil accept permits every description. The plugin keeps accept, so accept must not keep an earlier
// version.
func (b *Builder) NewPlugin(c config.Plugin, env *Environment, accept func(*tool.Description) error) *Plugin {
	p := &Plugin{Plugin: c, cfg: env.Config}
	p.peers.Store(&env.Peers)
	p.Process = b.Supervisor.Add(supervisor.Spec{
		Name: c.Name, Path: c.Path, Args: c.Args, Env: c.Env, StartTimeout: c.StartTimeout, Config: c.Config,
		Roots: env.Roots, Place: supervisor.Place{StateDir: b.Home.Plugin(c.Name), Ages: env.Config.Retention.Ages()},
		DependsOn: c.DependsOn,
		Restart:   supervisor.Restart{MaxFailures: c.Restart.Failures, Pause: c.Restart.Pause},
		Host:      &pluginHost{b: b, p: p, cfg: env.Config, launcher: env.Launcher, first: accept},
	})
	return p
}

// Breaks returns an error if a new plugin version is incompatible with callers of the old version. It returns nil if
// the configuration permits incompatible versions.
func Breaks(cfg *config.Config, plugin string, known, now *tool.Description) error {
	if known == nil || cfg.Reload.AnyChanges {
		return nil
	}
	var how []string
	for _, c := range registry.Compare(known.Tools, now.Tools) {
		if c.Breaks {
			how = append(how, c.String())
		}
	}
	if len(how) == 0 {
		return nil
	}
	return fmt.Errorf("version %s breaks callers of its tools (%s). Keep the definitions compatible, or accept the changes: toolhost plugin reload %s --accept-changes",
		now.Version, strings.Join(how, "; "), plugin)
}
