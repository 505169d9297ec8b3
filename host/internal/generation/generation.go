// Package generation builds generations. A generation consists of the plugins, registry, rules and dispatcher for one
// configuration and its binaries. Most callers want [Builder.Load].
//
// A published [Generation] never changes. A change of the configuration or of a binary creates a new generation. A call
// stays in the generation in which it started.
package generation

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trust"
)

// Generation is one configuration with its plugins. It must not be changed after publication.
type Generation struct {
	Config   *config.Config
	Launcher *confinement.Launcher
	// Plugins are in the order of the configuration.
	Plugins  []*Plugin
	Registry *registry.Registry
	Dispatch *dispatch.Dispatcher
	Roots    *roots.Sets
	// Unloaded maps plugins to the reason why they could not be loaded.
	Unloaded map[string]string
	// Reviews compares the definitions of monitored plugins with the approved definitions.
	Reviews []*trust.Review
	// Problems lists everything that does not work.
	Problems []string
}

// Plugin is a plugin of the configuration. Generations share the same Plugin as long as its binary and settings stay
// unchanged.
type Plugin struct {
	config.Plugin
	Process *supervisor.Plugin
	// Binary identifies the file at the last check.
	Binary Binary
	// Checked reports whether this version of the host validated the description earlier.
	Checked bool
	// Err is the reason why the plugin is unusable. Nil means that the plugin is usable.
	Err error

	desc   atomic.Pointer[tool.Description]
	denied atomic.Bool // a required permission is missing
}

// Description returns the plugin's description of itself. It returns nil if the description is unknown.
func (p *Plugin) Description() *tool.Description { return p.desc.Load() }

// SetDescription replaces the description.
func (p *Plugin) SetDescription(d *tool.Description) { p.desc.Store(d) }

// Subject returns the plugin in the form that [trust.Approvals] expects.
func (p *Plugin) Subject() trust.Subject {
	return trust.Subject{Name: p.Name, Path: p.Path, Namespace: p.Field, Mounted: p.Mounted}
}

// Plugin returns the plugin with the given name, or nil.
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

// Review returns the review of a plugin whose definitions differ from the approved definitions. Otherwise it returns
// nil.
func (g *Generation) Review(plugin string) *trust.Review {
	i := slices.IndexFunc(g.Reviews, func(r *trust.Review) bool { return r.Plugin == plugin && len(r.Changes) > 0 })
	if i < 0 {
		return nil
	}
	return g.Reviews[i]
}

// Callable returns the definitions of all callable tools with their full names. They are in the order of the
// configuration.
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
}

// whyUnloaded returns the reason why a plugin was not loaded. name is the name of the plugin or of its namespace. It
// returns "" if no plugin matches.
func (g *Generation) whyUnloaded(name string) string {
	for _, p := range g.Plugins {
		if why := g.Unloaded[p.Name]; why != "" && (p.Name == name || p.Field == name) {
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

// leases adapts the supervisor's plugins to the interface of package dispatch.
type leases supervisor.Set

// Reserve implements the Plugins interface of package dispatch.
func (l leases) Reserve(plugin string) call.Lease {
	if lease := supervisor.Set(l).Reserve(plugin); lease != nil {
		return lease
	}
	return nil
}
