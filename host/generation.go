package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/supervisor"
)

// generation is what a configuration and the binaries that it names come to. Nothing of it
// changes once it is published: a reload makes another beside it. A call belongs to the
// generation that it began in.
type generation struct {
	cfg         *config.Config
	confinement *confinement
	members     []*member // in the order of the configuration
	registry    *registry.Registry
	dispatch    *dispatch.Dispatcher
	roots       *rootSets
	unloaded    map[string]string // by plugin: why it could not be loaded
	watched     []watched         // what plugins say of their tools, where that is watched
	problems    []string

	linking sync.Once
	links   string // the programs that commands call tools by
}

// member is a plugin in generations: in all those in which its binary and the way it is run
// are the same.
type member struct {
	config.Plugin
	plugin *supervisor.Plugin
	// binary is which file it was when it was looked at.
	binary binary
	// desc is what it says of itself, as soon as that is known.
	desc atomic.Pointer[tool.Description]
	// refused: it lacks grants.
	refused atomic.Bool
	// checked: nothing was wrong with desc when it was looked at before.
	checked bool
	// err says why it cannot be used; nil: it can.
	err error
}

func (g *generation) member(name string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

// down reports whether a plugin is left alone because it ends again and again.
func (g *generation) down(plugin string) bool {
	m := g.member(plugin)
	return m != nil && m.plugin.Suspended()
}

// newMember makes a plugin of a configuration. Nothing is started. peers finds the plugins that are
// made at the same time; accept is the supervisor's.
func (h *Host) newMember(p config.Plugin, cfg *config.Config, conf *confinement, peers func(name string) *member, accept func(*tool.Description) error) *member {
	m := &member{Plugin: p}
	m.plugin = h.super.Add(supervisor.Spec{
		Name: p.Name, Path: p.Path, Args: p.Args, Env: p.Env, StartTimeout: p.StartTimeout, Config: p.Config,
		Roots: h.newRootSets(cfg).of(h.opts.Workspace, true), StateDir: h.pluginStateDir(p.Name),
		Confine:    func(s supervisor.Start) (*supervisor.Confined, error) { return h.confine(conf, &m.Plugin, s) },
		Diagnose:   func(diags []tool.Diagnostic) string { return cfg.At(p.Name, diags) },
		Inherit:    func() *os.File { return h.commands.inherit(m) },
		Executable: func() (string, error) { return h.pins.executable(p.Name, p.Path) },
		Granted:    func(d *tool.Description) error { return h.granted(m, d) },
		Accept: func(d *tool.Description) error {
			if err := h.pins.accept(p.Name, d); err != nil {
				return err
			}
			known := m.desc.Load()
			if known != nil && slices.Contains(d.Capabilities, tool.CapabilityDiscovery) {
				h.discovered(m, known, d)
				return nil
			}
			if known != nil { // it was heard before, and its binary may be another by now
				return breaks(cfg, m.Name, known, d)
			}
			if accept != nil {
				return accept(d)
			}
			return nil
		},
		DependsOn: p.DependsOn,
		Prepare:   func(ctx context.Context) error { return h.prepare(ctx, m, peers) },
		Observe:   func(e supervisor.Event, why string) { h.observe(m, e, why) },
		Restart:   supervisor.Restart{MaxFailures: p.Restart.Failures, Pause: p.Restart.Pause},
	})
	return m
}

// assemble makes a generation of plugins that were heard. refused says which of them serve
// tools that cannot be registered; the others work without those. err is what is wrong with
// the operator's rules for these tools; those that can be are in force all the same.
func (h *Host) assemble(cfg *config.Config, conf *confinement, members []*member) (g *generation, refused map[string]error, err error) {
	g = &generation{cfg: cfg, confinement: conf, members: members, registry: registry.New(), unloaded: make(map[string]string)}
	g.roots = h.newRootSets(cfg)
	set := make(supervisor.Set, len(members))
	refused = make(map[string]error)
	before := h.definitionsBefore(members)
	for _, m := range members {
		set[m.Name] = m.plugin
		if m.err != nil {
			g.failedToLoad(m)
			continue
		}
		desc, held := g.watch(h, m, before)
		err := g.registry.Add(m.Name, m.Field, desc, m.checked && len(held) == 0, func(name string) registry.Settings {
			t := cfg.Tools[name]
			if on, said := h.managed.enabled(name); said {
				t.Enabled = &on
			}
			return registry.Settings{Held: held[name], Enabled: t.Enabled, Timeout: t.Timeout, Limits: registry.Limits{
				Priority: t.Priority, MaxConcurrent: t.MaxConcurrent, Queue: t.Queue, Attempts: t.Attempts, RetryDelay: t.RetryDelay,
				Fallback: t.Fallback, FallbackParams: t.FallbackParams,
			}}
		})
		if err != nil {
			refused[m.Name] = err
			g.problem("%v", err)
		}
	}
	g.addAliases(h.managed.aliases())
	g.checkToolBlocks()
	g.checkHookPlugins()
	rules, err := g.boundRules()
	g.dispatch = &dispatch.Dispatcher{
		Registry:  g.registry,
		Policy:    policy.New(rules),
		Scheduler: h.scheduler,
		Gates:     &h.gates,
		MaxCalls:  cfg.Host.MaxCalls,
		Plugins:   places(set),
		Commands:  h.commands,
		State:     h.state,
		Metrics:   &h.metrics,
		Hooks:     h.hooks(g),
		Tracer:    h.tracing.of(cfg, h.log),
		Timeout:   cfg.Host.Timeout,
		Latest:    func() *dispatch.Dispatcher { return h.current.Load().dispatch },
		Unloaded:  g.whyUnloaded,
		Denied:    g.denied(h),
	}
	if cfg.Host.Adaptive {
		g.dispatch.Adaptive = &h.adaptive
	} else {
		h.adaptive.Results.Clear()
	}
	return g, refused, err
}

// prepare starts what a plugin depends on: as it serves now, or as it is about to.
func (h *Host) prepare(ctx context.Context, m *member, peers func(name string) *member) error {
	if g := h.current.Load(); g != nil && g.member(m.Name) == m {
		peers = g.member
	}
	for _, name := range m.DependsOn {
		on := peers(name)
		if on == nil {
			return fmt.Errorf("it depends on plugin %s, which is not there", name)
		}
		if on.Missing != "" {
			return fmt.Errorf("it depends on plugin %s: %s", name, on.Missing)
		}
		if _, err := on.plugin.Describe(ctx); err != nil {
			return fmt.Errorf("it depends on plugin %s: %w", name, err)
		}
	}
	return nil
}

var countedEvents = map[supervisor.Event]metrics.Event{
	supervisor.Started: metrics.Started, supervisor.Failed: metrics.StartFailed, supervisor.Ended: metrics.Crashed,
}

// observe counts, and keeps the states of a plugin's tools as its process is.
func (h *Host) observe(m *member, e supervisor.Event, why string) {
	if counted, ok := countedEvents[e]; ok {
		h.metrics.Plugin(m.Name, counted)
	}
	g := h.current.Load()
	if g == nil || g.member(m.Name) != m { // it does not serve yet, or any more
		return
	}
	for _, entry := range g.registry.All() {
		if entry.Plugin != m.Name || !entry.Enabled {
			continue
		}
		switch life, state := entry.Life, entry.Life.State(); {
		case (e == supervisor.Ended || e == supervisor.Failed) && state == registry.Executing:
			_ = life.To(registry.Errored, why)
		case e == supervisor.Suspended:
			life.Leave("its plugin ends again and again: " + why)
		case (e == supervisor.Started || e == supervisor.Resumed) && (state == registry.Errored || state == registry.Disabled):
			_ = life.To(registry.Ready, "its plugin runs")
		}
	}
}

// places are the supervisor's plugins as dispatch sees them.
type places supervisor.Set

// Reserve implements dispatch's Plugins.
func (p places) Reserve(plugin string) dispatch.Place {
	if at := supervisor.Set(p).Reserve(plugin); at != nil {
		return at
	}
	return nil
}

func (g *generation) problem(format string, a ...any) {
	g.problems = append(g.problems, fmt.Sprintf(format, a...))
}

func (g *generation) failedToLoad(m *member) {
	why := fmt.Sprintf("Plugin %s is not loaded: %v", m.Name, m.err)
	if e := tool.AsError(m.err); m.Missing == "" {
		why = e.Message
	}
	if at := g.cfg.PluginPosition(m.Name); at != "" {
		why = at + ": " + why
	}
	g.unloaded[m.Name] = strings.TrimSuffix(why, ".") + ". The other tools work; toolhost status shows them all."
	g.problem("%s", why)
}

// whyUnloaded says why the plugin of a name, or of a field namespace, could not be loaded.
func (g *generation) whyUnloaded(name string) string {
	for _, m := range g.members {
		if why := g.unloaded[m.Name]; why != "" && (m.Name == name || m.Field == name) {
			return why
		}
	}
	return ""
}

// addAliases registers the further names of tools. Those of a preset are for tools that
// may not be there; the operator hears of their own.
func (g *generation) addAliases(more []config.Alias) {
	for _, a := range slices.Concat(g.cfg.Aliases, more) {
		alias := registry.Alias{Name: a.Name, Tool: a.Tool, Params: a.Params, Optional: a.Preset != ""}
		if ns, name, ok := strings.Cut(a.Tool, ":"); ok {
			alias.Namespace, alias.Tool = ns, name
		}
		if err := g.registry.AddAlias(alias); err != nil && a.Preset == "" && len(g.unloaded) == 0 {
			g.problem("%s", g.cfg.BadAlias(a, err))
		}
	}
}

// checkToolBlocks reports tool blocks that no tool answers to: a slip would otherwise
// leave a tool enabled that was meant to be off.
func (g *generation) checkToolBlocks() {
	for name, t := range g.cfg.Tools {
		if g.registry.Lookup("", name) == nil && len(g.unloaded) == 0 {
			g.problem("%s", g.cfg.UnknownTool(name, g.registry.AgentNames()))
		}
		if t.Fallback != "" && g.registry.Find(t.Fallback) == nil && len(g.unloaded) == 0 {
			g.problem("%s", g.cfg.UnknownFallback(name, g.registry.AgentNames()))
		}
	}
}

// rootSets are what the sessions of each workspace may touch.
type rootSets struct {
	find func(workspace string) []tool.Root
	// output is the directory of what a plugin lets all tools read; empty: there is none.
	output  func(plugin string) string
	plugins []string

	mu      sync.Mutex
	by      map[string][]tool.Root // by workspace; forgotten after calls that may change them
	outputs map[string]bool        // by plugin: whether the directory is there
}

// outputName is the directory, in its state directory, of what a plugin lets all tools read.
const outputName = "output"

// of gives the roots of a workspace. Do not change them. What plugins let all tools read is looked
// for again when it is named: that is a look at the disk for each plugin, and hardly a call needs it.
func (r *rootSets) of(workspace string, named bool) []tool.Root {
	r.mu.Lock()
	defer r.mu.Unlock()
	if named {
		clear(r.outputs)
		delete(r.by, workspace)
	}
	roots := r.by[workspace]
	if roots == nil {
		roots = r.find(workspace)
		for _, p := range r.plugins {
			there, known := r.outputs[p]
			dir := r.output(p)
			if !known {
				there = dir != "" && isDir(dir)
				r.outputs[p] = there
			}
			if there {
				roots = append(roots, tool.Root{Path: dir})
			}
		}
		r.by[workspace] = roots
	}
	return roots
}

// forget has those found again that are configured: a call may have made a directory that is one.
func (r *rootSets) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.by)
}

func (h *Host) newRootSets(cfg *config.Config) *rootSets {
	r := &rootSets{
		find: func(workspace string) []tool.Root { return configuredRoots(cfg, workspace) }, output: h.outputDir,
		by: make(map[string][]tool.Root), outputs: make(map[string]bool),
	}
	for _, p := range cfg.Plugins {
		r.plugins = append(r.plugins, p.Name)
	}
	return r
}

// outputDir is where a plugin puts what all tools may read, such as the whole of an output that
// was too long; empty when nothing is kept.
func (h *Host) outputDir(plugin string) string {
	dir := h.pluginStateDir(plugin)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, outputName)
}
