package generation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/find"
	"toolhost.dev/host/internal/grants"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/login"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/pluginlog"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/sessionlock"
	"toolhost.dev/host/internal/settings"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/statedir"
	"toolhost.dev/host/internal/supervisor"
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
	Metrics   metrics.Metrics
	Adaptive  adaptive.Learned
	Finder    find.Index
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
	Locks      *sessionlock.Locks // nil if no other process can use the sessions
	Home       statedir.Home
	Supervisor *supervisor.Supervisor
	Confine    *confinement.Parts
	Commands   *shim.Granter
	Logins     *login.Keeper
	Overrides  *Overrides
	Log        *slog.Logger
	// Logs stores the lines that plugins print. If Logs is nil, the lines are discarded.
	Logs *pluginlog.Log
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

// The type "vetted" holds the pins and the approvals of one configuration.
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

// The method "of" returns the pins and the approvals of a configuration.
func (v *vetting) of(cfg *config.Config) vetted {
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
	return b.vetting.of(cfg)
}

// Close sends the traces that are still queued.
func (b *Builder) Close() { b.tracing.close() }

// Roots returns the roots of sessions under a configuration.
func (b *Builder) Roots(cfg *config.Config) *roots.Sets { return roots.New(cfg, b.Home.Output) }

// Launcher returns the launcher for a configuration. The error lists plugins that require confinement but cannot be
// confined. Load does not load these plugins, so a caller of Load can ignore the error if the launcher is not nil.
func (b *Builder) Launcher(cfg *config.Config) (*confinement.Launcher, error) {
	l := confinement.New(cfg, b.Confine)
	l.List(settings.Listed(cfg))
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
	return &Environment{Config: cfg, Launcher: launcher, Peers: peers, Roots: b.Roots(cfg).Of("", b.Options.Workspace, true)}
}

// NewPlugin adds a plugin to the supervisor without starting it. The function "accept" checks the plugin's first
// description. A nil accept permits every description. The plugin keeps accept, so accept must not keep an earlier version.
func (b *Builder) NewPlugin(c config.Plugin, env *Environment, accept func(*tool.Description) error) *Plugin {
	cfg, launcher := env.Config, env.Launcher
	p := &Plugin{Plugin: c}
	p.peers.Store(&env.Peers)
	p.Process = b.Supervisor.Add(supervisor.Spec{
		Name: c.Name, Path: c.Path, Args: c.Args, Env: c.Env, StartTimeout: c.StartTimeout, Config: c.Config,
		Roots: env.Roots, StateDir: b.Home.Plugin(c.Name),
		OfOwner: func(owner string) (string, int64) {
			return b.Home.PluginOf(owner, c.Name), cfg.Access.OutputBytes(owner)
		},
		Confine: func(s supervisor.Start) (*supervisor.Confined, error) {
			if server, header := p.Server(); server != "" && !header {
				b.Logins.Deliver(context.Background(), server, s.StateDir)
			} else if p.Mounted {
				login.Clear(s.StateDir) // an earlier configuration could have mounted a remote server under this name
			}
			return launcher.Launch(&p.Plugin, s)
		},
		Diagnose:   func(diags []tool.Diagnostic) string { return cfg.At(c.Name, diags) },
		Inherit:    func() *os.File { return b.inherit(p) },
		Executable: func() (string, error) { return b.executable(cfg, p) },
		Permit: func(call *tool.Call) error {
			return b.Pins(cfg).CheckStart(trust.Start{Block: `field "` + c.Name + `"`, Cwd: call.Cwd, PerCall: true})
		},
		Granted:   func(d *tool.Description) error { return b.checkGrants(p, d) },
		Accept:    func(d *tool.Description) error { return b.accept(cfg, p, d, accept) },
		Notify:    func(n supervisor.Notice) { b.owner.Notified(p, n) },
		DependsOn: c.DependsOn,
		Prepare:   func(ctx context.Context) error { return b.prepare(ctx, p) },
		Observe:   func(e supervisor.Event, why string) { b.observe(p, e, why) },
		Restart:   supervisor.Restart{MaxFailures: c.Restart.Failures, Pause: c.Restart.Pause},
	})
	return p
}

// The method "inherit" returns the file descriptor through which the plugin's commands call tools. It returns nil if the
// commands of the plugin cannot call tools.
func (b *Builder) inherit(p *Plugin) *os.File {
	if d := p.Description(); d != nil && !slices.Contains(d.Capabilities, tool.CapabilityCommands) {
		return nil
	}
	return b.Commands.Inherit()
}

// checkGrants returns an error if the plugin lacks a required permission. It also saves the plugin's description, so
// that a later host can reject the plugin without starting it.
func (b *Builder) checkGrants(p *Plugin, d *tool.Description) error {
	if b.Options.DescribeOnly {
		p.desc.CompareAndSwap(nil, d)
		return errDescribed
	}
	err := grants.Missing(&p.Plugin, d.Needs)
	p.denied.Store(err != nil)
	if err == nil {
		return nil
	}
	p.desc.CompareAndSwap(nil, d)
	if p.Binary.Keyed && !slices.Contains(d.Capabilities, tool.CapabilityDiscovery) {
		b.logUnkept(p, b.keep(p, d))
	}
	return err
}

// errDescribed ends the start of a plugin that only has to describe itself.
var errDescribed = errors.New("the plugin was started only to describe itself")

// The method "accept" checks the description of a newly started process.
func (b *Builder) accept(cfg *config.Config, p *Plugin, d *tool.Description, first func(*tool.Description) error) error {
	if err := b.Pins(cfg).CheckTools(p.Name, p.Path, d); err != nil {
		return err
	}
	known := p.Description()
	switch {
	case known != nil && slices.Contains(d.Capabilities, tool.CapabilityDiscovery):
		b.rediscover(p, known, d)
		return nil
	case known != nil: // the binary that was described and the binary that was started can differ
		return Breaks(cfg, p.Name, known, d)
	case first != nil:
		return first(d)
	}
	return nil
}

// Breaks returns an error if a new plugin version is incompatible with callers of the old version. It returns nil if the
// configuration permits incompatible versions.
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

// The method "prepare" starts the plugins on which a plugin depends.
func (b *Builder) prepare(ctx context.Context, p *Plugin) error {
	peers := *p.peers.Load()
	if g := b.owner.Current(); g != nil && g.Plugin(p.Name) == p {
		peers = g.Plugin
	}
	for _, name := range p.DependsOn {
		on := peers(name)
		if on == nil {
			return fmt.Errorf("the plugin depends on plugin %s, which does not exist", name)
		}
		if on.Missing != "" {
			return fmt.Errorf("the plugin depends on plugin %s: %s", name, on.Missing)
		}
		if _, err := on.Process.Describe(ctx); err != nil {
			return fmt.Errorf("the plugin depends on plugin %s: %w", name, err)
		}
	}
	return nil
}

var countedEvents = map[supervisor.Event]metrics.Event{
	supervisor.Started: metrics.Started, supervisor.Failed: metrics.StartFailed, supervisor.Ended: metrics.Crashed,
}

// The method "observe" counts an event of a plugin process and updates the states of the plugin's tools.
func (b *Builder) observe(p *Plugin, e supervisor.Event, why string) {
	if counted, ok := countedEvents[e]; ok {
		b.Calls.Metrics.Plugin(p.Name, counted)
	}
	g := b.owner.Current()
	if g == nil || g.Plugin(p.Name) != p { // the plugin is not yet published, or another plugin replaced it
		return
	}
	for _, entry := range g.Registry.All() {
		if entry.Plugin != p.Name || !entry.Enabled {
			continue
		}
		switch life, now := entry.Life, entry.Life.State(); {
		case (e == supervisor.Ended || e == supervisor.Failed) && now == registry.Executing:
			_ = life.To(registry.Errored, why)
		case e == supervisor.Suspended:
			life.Leave("the plugin of the tool keeps failing: " + why)
		case (e == supervisor.Started || e == supervisor.Resumed) && (now == registry.Errored || now == registry.Disabled):
			_ = life.To(registry.Ready, "the plugin of the tool is running")
		}
	}
}
