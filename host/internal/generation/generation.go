// Package generation builds generations. A generation consists of a configuration with its plugins, tool registry,
// rules and dispatcher. Most callers want [Builder.Load].
//
// A published [Generation] never changes. A change of the configuration or of a binary requires a new generation. A
// call uses the generation in which it started until it ends.
package generation

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/trust"
)

// Generation is a configuration with its plugins. It must not change after its publication.
type Generation struct {
	Config   *config.Config
	Launcher *confinement.Launcher
	// Plugins contains the plugins in the order of the configuration.
	Plugins  []*Plugin
	Registry *registry.Registry
	Dispatch *dispatch.Dispatcher
	Tracer   *telemetry.Tracer // nil without tracing
	Hooks    *hook.Set         // nil without hooks
	Roots    *roots.Sets
	// Unloaded maps plugins that could not be loaded to the reason.
	Unloaded map[string]string
	// Access and Endpoints are taken from the configuration, with resolved names of tools and fields.
	Access    principal.Blocks
	Endpoints []config.Endpoint
	// Reviews contains the comparisons of tool definitions with the approved definitions, for all monitored plugins.
	Reviews []*trust.Review
	// Problems lists all known failures of the generation.
	Problems []string
	// Broken is the part of Problems that names plugins that were not loaded and tools that were not registered.
	Broken []string

	home      state.Home
	lostTools map[string]string      // pinned plugins that were not loaded, by the names of their tools
	misnames  map[string]string      // messages about names that no tool has; see misname for the keys
	lost      []error                // the part of misnames without which a restriction of the operator would not apply
	tools     map[string]config.Tool // the settings of tools by their full names
	calls     map[string][]string    // the tools that the code of plugins can call, by plugin
	hooks     []config.Hook          // those of the configuration, with resolved names of tools
	lostHooks []string               // the part of Problems about hooks whose program does not exist
}

// Wrong returns those Problems that are mistakes in the configuration and do not concern a plugin. These are names that
// no tool has, and hooks whose program does not exist.
func (g *Generation) Wrong() []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(g.misnames)) {
		out = append(out, g.misnames[key])
	}
	return append(out, g.lostHooks...)
}

// Plugin is a plugin of the configuration. Several generations share a Plugin as long as its binary and settings do not
// change.
type Plugin struct {
	config.Plugin
	Process *supervisor.Plugin
	// Binary identifies the plugin's file at the time of the last check.
	Binary Binary
	// Checked reports whether the same version of the host already validated the description.
	Checked bool
	// Err is the reason why the plugin is unusable. It is nil for a usable plugin.
	Err error

	cfg    *config.Config // with which its process was made
	held   atomic.Pointer[Held]
	desc   atomic.Pointer[tool.Description]
	kept   atomic.Pointer[records.Kept]
	denied atomic.Bool // whether a required permission is missing
	peers  atomic.Pointer[Peers]
}

// Settle must be called when the generation is published. From then on, a plugin keeps only those other plugins on
// which it depends. The function with which it was created can keep the attempt to reload and the generation before,
// whose plugins keep earlier ones.
func (g *Generation) Settle() {
	for _, p := range g.Plugins {
		on := make(map[string]*Plugin, len(p.DependsOn))
		for _, name := range p.DependsOn {
			on[name] = g.Plugin(name)
		}
		peers := Peers(func(name string) *Plugin { return on[name] })
		p.peers.Store(&peers)
	}
}

// Description returns the tools and settings that the plugin reports. It returns nil if they are unknown.
func (p *Plugin) Description() *tool.Description { return p.desc.Load() }

// Held returns the reason why the plugin does not run the version on the disk. It returns nil if the plugin is not
// held.
func (p *Plugin) Held() *Held { return p.held.Load() }

// SetDescription replaces the description.
func (p *Plugin) SetDescription(d *tool.Description) { p.desc.Store(d) }

// remember sets the description to a description from the database.
func (p *Plugin) remember(k *records.Kept) {
	p.Checked = k.CheckedBy == build.Version
	p.kept.Store(k)
	p.SetDescription(k.Description)
}

// Subject describes the plugin for [trust.Approvals].
func (p *Plugin) Subject() trust.Subject {
	out := trust.Subject{Name: p.Name, Path: p.Path, Namespace: p.Field, Mounted: p.Mounted}
	if k := p.kept.Load(); k != nil && k.CheckedBy == build.Version && k.Description == p.Description() {
		out.Definitions = &k.Definitions
	}
	return out
}

// Plugin returns the plugin with the given name. It returns nil for an unknown name.
func (g *Generation) Plugin(name string) *Plugin {
	i := slices.IndexFunc(g.Plugins, func(p *Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return g.Plugins[i]
}

// Suspended reports whether a plugin is suspended because of repeated failures.
func (g *Generation) Suspended(plugin string) bool {
	p := g.Plugin(plugin)
	return p != nil && p.Process.Suspended()
}

// Review returns the comparison of a plugin's definitions with the approved definitions. It returns nil if they are
// equal.
func (g *Generation) Review(plugin string) *trust.Review {
	i := slices.IndexFunc(g.Reviews, func(r *trust.Review) bool { return r.Plugin == plugin && len(r.Changes) > 0 })
	if i < 0 {
		return nil
	}
	return g.Reviews[i]
}

// Callable returns the definitions of all tools that can be called, in the order of the configuration. Each definition
// contains the full name of its tool.
func (g *Generation) Callable() []tool.Definition {
	var out []tool.Definition
	for _, e := range g.Registry.All() {
		if e.Enabled {
			d := e.Definition
			d.Name = e.FullName()
			out = append(out, d)
		}
	}
	return out
}

// Problemf adds a problem. It must be called before the generation is published.
func (g *Generation) Problemf(format string, a ...any) {
	g.Problems = append(g.Problems, fmt.Sprintf(format, a...))
}

// failed records that a plugin was not loaded.
func (g *Generation) failed(p *Plugin) {
	why := fmt.Sprintf("Plugin %s is not loaded: %v", p.Name, p.Err)
	if e := tool.AsError(p.Err); p.Missing == "" {
		why = e.Message
	}
	if at := g.Config.PluginPosition(p.Name); at != "" {
		why = at + ": " + why
	}
	g.Unloaded[p.Name] = strings.TrimSuffix(why, ".") + ". The other tools work; toolhost status lists all tools."
	g.Problemf("%s", why)
	g.Broken = append(g.Broken, g.Problems[len(g.Problems)-1])
}

// WhyUnloaded returns the reason why a plugin was not loaded. The argument is the name of the plugin, of its namespace,
// or of one of its tools. If the plugin has a namespace, every function name with the prefix of the namespace counts as
// a tool. Otherwise the plugin's pin contains its tools. For any other name, WhyUnloaded returns "".
func (g *Generation) WhyUnloaded(name string) string {
	if plugin := g.lostTools[name]; plugin != "" {
		return g.Unloaded[plugin]
	}
	for _, p := range g.Plugins {
		if why := g.Unloaded[p.Name]; why != "" && (p.Name == name || p.Field == name ||
			p.Field != "" && strings.HasPrefix(name, strings.ReplaceAll(p.Field, ".", "_")+"_")) {
			return why
		}
	}
	return ""
}

// toolNames returns the full names of all tools.
func (g *Generation) toolNames() []string {
	var names []string
	for _, e := range g.Registry.All() {
		names = append(names, e.FullName())
	}
	return names
}

// MayCall reports whether the code of a plugin is allowed to call a tool.
func (g *Generation) MayCall(plugin, name string) bool {
	return (&config.Plugin{Calls: g.calls[plugin]}).MayCall(name)
}

// Complete adds to a stored session what it has in the generation: its roots and its temporary directory. If the
// session's directory is not in them, Complete replaces it. If the text of a request names output directories of
// plugins, it looks for them again, because an earlier call can have created one.
func (g *Generation) Complete(s call.Session, command string, arguments []byte) call.Session {
	names := strings.Contains(command, state.OutputDir) || bytes.Contains(arguments, []byte(state.OutputDir))
	s.Roots = g.Roots.Of(s.Principal.Owner(), s.Workspace, names)
	if s.Branch != "" {
		s.Roots = s.InBranch(s.Roots)
	}
	if base, err := g.home.Scratch(); err == nil { // without it, tools do not share temporary files
		dir := scratch.Dir(base, s.ID)
		s.Past, s.Temporary = scratch.PastOf(dir), g.Launcher.Temporary(nil, s.Roots, dir)
	}
	return s.InRoots()
}

// plugins implements [dispatch.Plugins] for a generation.
type plugins struct {
	*Generation
	set      supervisor.Set
	rollouts *rollout.Set
}

// Confinement implements [dispatch.Plugins].
func (l *plugins) Confinement(plugin string) call.Confinement {
	if p := l.Plugin(plugin); p != nil {
		return l.Launcher.Confinement(&p.Plugin, p.Mounted)
	}
	return call.Unconfined{}
}

// Lease implements [dispatch.Plugins].
func (l *plugins) Lease(c *call.Call) bool {
	id := &c.Identity
	lease := l.set.Reserve(id.Tool.Plugin, c.Request.Session.Principal.Owner())
	if lease == nil {
		return false
	}
	id.Lease, id.Rollout = lease, nil
	if r := l.rollouts.Of(id.Tool.Plugin); r != nil && c.Request.Exchange == nil {
		stage.ChooseVersion(r, c)
	}
	return true
}

// Reserve implements [dispatch.Plugins].
func (l *plugins) Reserve(plugin, owner string) call.Lease {
	if lease := l.set.Reserve(plugin, owner); lease != nil {
		return lease
	}
	return nil
}
