package host

import (
	"context"

	"toolhost.dev/host/internal/engine"
)

// ReloadOptions selects what to reload. The zero value reloads a changed configuration and every plugin with a changed
// binary.
type ReloadOptions = engine.ReloadOptions

// Reload describes the outcome of a reload.
type Reload = engine.ReloadReport

// ConfigReload describes the outcome of a reload for the configuration.
type ConfigReload = engine.ConfigReport

// PluginReload describes the outcome of a reload for one plugin.
type PluginReload = engine.PluginReport

// Outcomes of a reload for a plugin.
const (
	Swapped = engine.Swapped
	Added   = engine.Added
	Removed = engine.Removed
	Refused = engine.Refused
	// RollingOut means that the new version is taken into service step by step.
	RollingOut = engine.RollingOut
)

// Reload applies changes of the configuration and of plugin binaries. It starts each new version beside the old version
// and checks handshake, description, configuration and health. Then it publishes all changes in one step. Running calls
// finish on their old version.
//
// A version that fails a check is rejected, and the old version continues to serve. If a part of a new configuration
// fails, the whole old configuration stays in use.
//
// If files change during a reload, the reload restarts to publish the newest state. Only one reload runs at a time.
// Reload returns an error if a plugin is unknown, ctx is canceled, or the host is closing. No change is applied in
// these cases.
func (h *Host) Reload(ctx context.Context, opts ReloadOptions) (*Reload, error) {
	return h.engine.Reload(ctx, opts)
}

// Plan describes the changes that a reload would make.
type Plan = engine.Plan

// PluginPlan describes the planned change of one plugin.
type PluginPlan = engine.PluginPlan

// PluginVersion identifies a plugin's binary.
type PluginVersion = engine.PluginVersion

// Plan returns the changes that [Host.Reload] would make. It starts new versions of plugins to get their descriptions,
// and then stops them. Running calls continue. Plan returns an error if ctx is canceled or the host is closing.
func (h *Host) Plan(ctx context.Context) (*Plan, error) { return h.engine.Plan(ctx) }

// ToolChange is a difference between two definitions of a tool.
type ToolChange = engine.ToolChange

// Update describes the changes by a reload or by an operator.
type Update = engine.Update

// Subscribe calls f with each update until the caller calls cancel. When f is called, new calls already use the
// changes. The function f must return quickly and must not change the host.
func (h *Host) Subscribe(f func(Update)) (cancel func()) { return h.engine.Subscribe(f) }

// Item is something that a plugin offers to MCP clients besides its tools, such as a prompt.
type Item = engine.Item

// Items returns what plugins offer to MCP clients besides tools.
func (h *Host) Items() []*Item { return h.engine.Items() }

// Notice is a notification of a plugin for MCP clients.
type Notice = engine.Notice

// Listen calls f with each notification of a plugin for MCP clients until the caller calls cancel. The function f must
// return quickly and must not call the host.
func (h *Host) Listen(f func(Notice)) (cancel func()) { return h.engine.Listen(f) }

// ToolState is the state of a tool, such as executing.
type ToolState = engine.ToolState

// ToolLife is a tool's current state with its earlier states.
type ToolLife = engine.ToolLife

// Transition is a change of a tool's state.
type Transition = engine.Transition

// SubscribeStates calls f with each transition of a tool's state until the caller calls cancel. The start and the end
// of a call are not transitions. The function f must return quickly and must not call the host.
func (h *Host) SubscribeStates(f func(Transition)) (cancel func()) {
	return h.engine.SubscribeStates(f)
}

// Enable enables a tool. If name is a plugin, Enable reverts [Host.Disable] for the tools of the plugin. The change
// overrides the configuration until the host is closed. Enable returns an error for an unknown name.
func (h *Host) Enable(name string) error { return h.engine.SetEnabled(name, true, "") }

// Disable disables a tool, or all tools of a plugin. Running calls continue. Disable returns an error for an unknown
// name.
func (h *Host) Disable(name string) error { return h.engine.SetEnabled(name, false, "") }

// SetEnabled is like [Host.Enable] or [Host.Disable]. The argument "by" is the principal that requested the change, for
// the audit log.
func (h *Host) SetEnabled(name string, on bool, by *Principal) error {
	return h.engine.SetEnabled(name, on, by.Name)
}

// ConfigHistory lists the configurations that hosts used at the path of this host's configuration.
type ConfigHistory = engine.ConfigHistory

// ServedConfig is a configuration that a host used.
type ServedConfig = engine.ServedConfig

// RolledBack describes the outcome of a rollback.
type RolledBack = engine.RolledBack

// ConfigHistory returns the configurations that hosts with the option Live used, newest first. It returns an error for
// the built-in configuration, which has no files.
func (h *Host) ConfigHistory() (*ConfigHistory, error) { return h.engine.ConfigHistory() }

// ServedConfig returns a configuration of the history with its files. It returns an error for an unknown id.
func (h *Host) ServedConfig(id int64) (*ServedConfig, error) { return h.engine.ServedConfig(id) }

// Rollback restores the files of an earlier configuration and reloads it. If id is 0, it restores the newest
// configuration that differs from the files on disk. The privileges of the restored configuration need no approval,
// because a host used it before. The argument "by" is the principal for the audit log. Rollback returns an error if the
// id is unknown or the files cannot be written. If the reload refuses a part of the restored configuration, the result
// contains the reason, and the files stay restored.
func (h *Host) Rollback(ctx context.Context, id int64, by *Principal) (*RolledBack, error) {
	return h.engine.Rollback(ctx, id, by.Name)
}

// AddAlias adds an additional name for a tool until the host is closed. The map "params" contains additional names for
// the tool's parameters. AddAlias returns an error for an invalid alias.
func (h *Host) AddAlias(name, tool string, params map[string]string) error {
	return h.engine.AddAlias(name, tool, params)
}

// RemoveAlias removes an alias that [Host.AddAlias] added. It returns an error for an unknown alias.
func (h *Host) RemoveAlias(name string) error { return h.engine.RemoveAlias(name) }

// Plugin describes a plugin for registration at run time.
type Plugin = engine.Plugin

// Register starts, checks and adds a plugin, as [Host.Reload] does for a configured plugin. The plugin stays until the
// host is closed. Register returns an error if the name is already in use or a check fails.
func (h *Host) Register(ctx context.Context, p Plugin) error { return h.engine.Register(ctx, p) }

// Unregister removes a plugin and its tools. Running calls of these tools continue. Unregister returns an error if the
// plugin is unknown or another plugin depends on it.
func (h *Host) Unregister(ctx context.Context, name string) error {
	return h.engine.Unregister(ctx, name)
}
