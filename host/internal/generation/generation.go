// Package generation builds what a configuration and the binaries that it names amount to: plugins, registry, rules and
// the dispatcher of calls. Most callers want [Builder.Load].
//
// A [Generation] never changes once it is published. A change of the configuration or of a binary builds another one
// beside it. A call belongs to the generation that it began in.
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

// Generation is one configuration with its plugins. Do not change it.
type Generation struct {
	Config   *config.Config
	Launcher *confinement.Launcher
	// Plugins in the order of the configuration.
	Plugins  []*Plugin
	Registry *registry.Registry
	Dispatch *dispatch.Dispatcher
	Roots    *roots.Sets
	// Unloaded says why a plugin could not be loaded, by name.
	Unloaded map[string]string
	// Reviews compare the definitions of monitored plugins with the approved ones.
	Reviews []*trust.Review
	// Problems describes everything that does not work.
	Problems []string
}

// Plugin is a plugin of the configuration. Generations share it as long as its binary and the way it runs stay the same.
type Plugin struct {
	config.Plugin
	Process *supervisor.Plugin
	// Binary identifies the file when it was last looked at.
	Binary Binary
	// Checked reports whether this version of the host checked the description before.
	Checked bool
	// Err says why the plugin cannot be used. Nil means that it can.
	Err error

	desc   atomic.Pointer[tool.Description]
	denied atomic.Bool // it lacks grants
}

// Description returns what the plugin says about itself. It returns nil if that is not known.
func (p *Plugin) Description() *tool.Description { return p.desc.Load() }

// SetDescription replaces the description.
func (p *Plugin) SetDescription(d *tool.Description) { p.desc.Store(d) }

// Subject returns the plugin as [trust.Approvals] compares it.
func (p *Plugin) Subject() trust.Subject {
	return trust.Subject{Name: p.Name, Path: p.Path, Namespace: p.Field, Mounted: p.Mounted}
}

// Plugin returns a plugin by name, or nil.
func (g *Generation) Plugin(name string) *Plugin {
	i := slices.IndexFunc(g.Plugins, func(p *Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return g.Plugins[i]
}

// Suspended reports whether a plugin is not restarted because it keeps failing.
func (g *Generation) Suspended(plugin string) bool {
	p := g.Plugin(plugin)
	return p != nil && p.Process.Suspended()
}

// Review returns the review of a plugin whose definitions differ from the approved ones, or nil.
func (g *Generation) Review(plugin string) *trust.Review {
	i := slices.IndexFunc(g.Reviews, func(r *trust.Review) bool { return r.Plugin == plugin && len(r.Changes) > 0 })
	if i < 0 {
		return nil
	}
	return g.Reviews[i]
}

// Callable returns the definitions of the tools that can be called, with their full names, in the order of the
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

// Problemf adds a problem. Call it before the generation is published.
func (g *Generation) Problemf(format string, a ...any) {
	g.Problems = append(g.Problems, fmt.Sprintf(format, a...))
}

// failed records that a plugin could not be loaded.
func (g *Generation) failed(p *Plugin) {
	why := fmt.Sprintf("Plugin %s is not loaded: %v", p.Name, p.Err)
	if e := tool.AsError(p.Err); p.Missing == "" {
		why = e.Message
	}
	if at := g.Config.PluginPosition(p.Name); at != "" {
		why = at + ": " + why
	}
	g.Unloaded[p.Name] = strings.TrimSuffix(why, ".") + ". The other tools work; toolhost status shows them all."
	g.Problemf("%s", why)
}

// whyUnloaded returns why the plugin with a name, or the one that serves a namespace, could not be loaded. It returns ""
// if there is no such plugin.
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

// leases adapts the supervisor's plugins to dispatch.
type leases supervisor.Set

// Reserve implements dispatch's Plugins.
func (l leases) Reserve(plugin string) call.Lease {
	if lease := supervisor.Set(l).Reserve(plugin); lease != nil {
		return lease
	}
	return nil
}
