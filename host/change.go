package host

import (
	"context"

	"toolhost.dev/host/internal/engine"
)

// ReloadOptions says what to reload. The zero value reloads the configuration if it changed, and every plugin whose binary
// changed.
type ReloadOptions = engine.ReloadOptions

// Reload is the outcome of a reload.
type Reload = engine.ReloadReport

// ConfigReload is the outcome of a reload for the configuration.
type ConfigReload = engine.ConfigReport

// PluginReload is the outcome of a reload for one plugin.
type PluginReload = engine.PluginReport

// The outcomes of a plugin's reload.
const (
	Swapped = engine.Swapped
	Added   = engine.Added
	Removed = engine.Removed
	Refused = engine.Refused
)

// Reload applies what changed: the configuration, and binaries of plugins. A new version is started beside the old one and
// checked: handshake, description, configuration, health. Then everything is published in one step; calls that have begun
// end on the version that they began with. A version that fails a check is refused, and the old one goes on serving. If a
// part of the configuration fails, all of the old one stays in use.
//
// If something changes during a reload, the newest state is published. Reloads run one after the other. The error says that
// nothing was tried: a plugin is unknown, ctx ended, or the host is being closed.
func (h *Host) Reload(ctx context.Context, opts ReloadOptions) (*Reload, error) {
	return h.engine.Reload(ctx, opts)
}

// Plan is what a reload would change.
type Plan = engine.Plan

// PluginPlan is the planned change of one plugin.
type PluginPlan = engine.PluginPlan

// PluginVersion identifies a plugin's binary.
type PluginVersion = engine.PluginVersion

// Plan returns what [Host.Reload] would change. It starts versions of plugins that are not known yet, and stops them again;
// calls do not notice. The error says that ctx ended, or that the host is being closed.
func (h *Host) Plan(ctx context.Context) (*Plan, error) { return h.engine.Plan(ctx) }

// ToolChange is a difference between two definitions of a tool.
type ToolChange = engine.ToolChange

// Update is what a reload or an operator changed.
type Update = engine.Update

// Subscribe calls f with each update, after calls see it, until cancel is called. f must return soon and must not change the
// host.
func (h *Host) Subscribe(f func(Update)) (cancel func()) { return h.engine.Subscribe(f) }

// ToolState is a state in the life of a tool.
type ToolState = engine.ToolState

// ToolLife is a tool's state with its history.
type ToolLife = engine.ToolLife

// Transition is a step in the life of a tool.
type Transition = engine.Transition

// SubscribeStates calls f with each transition of a tool's state until cancel is called. The beginning and the end of a call are
// not transitions. f must return soon and must not call the host.
func (h *Host) SubscribeStates(f func(Transition)) (cancel func()) {
	return h.engine.SubscribeStates(f)
}

// Enable enables a tool. With the name of a plugin it undoes what [Host.Disable] did to the plugin's tools. It holds until the
// host is closed and outranks the configuration. The error says that no tool and no plugin has that name.
func (h *Host) Enable(name string) error { return h.engine.SetEnabled(name, true) }

// Disable disables a tool, or all tools of a plugin. Calls that have begun end. The error is as for Enable.
func (h *Host) Disable(name string) error { return h.engine.SetEnabled(name, false) }

// AddAlias adds another name for a tool. params maps further names of parameters to the tool's own. It holds until the host is
// closed. The error says what is wrong with the alias.
func (h *Host) AddAlias(name, tool string, params map[string]string) error {
	return h.engine.AddAlias(name, tool, params)
}

// RemoveAlias removes an alias that [Host.AddAlias] added. The error says that there is none of that name.
func (h *Host) RemoveAlias(name string) error { return h.engine.RemoveAlias(name) }

// Plugin is a plugin that is registered at run time.
type Plugin = engine.Plugin

// Register adds a plugin, which is started and checked as by [Host.Reload]. It holds until the host is closed. The error says why
// the plugin is refused: its name is taken, or it does not work.
func (h *Host) Register(ctx context.Context, p Plugin) error { return h.engine.Register(ctx, p) }

// Unregister removes a plugin with its tools. Calls that have begun end on it. The error says that there is no such plugin, or that
// another one depends on it.
func (h *Host) Unregister(ctx context.Context, name string) error {
	return h.engine.Unregister(ctx, name)
}
