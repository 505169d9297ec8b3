package engine

import (
	"context"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/state"
)

// The types of the methods of [Engine], for package host, which imports no other internal package.
type (
	Hook           = hook.Hook
	ReloadOptions  = reload.Options
	ReloadReport   = reload.Report
	ConfigReport   = reload.ConfigReport
	PluginReport   = reload.PluginReport
	Plan           = reload.Plan
	PluginPlan     = reload.PluginPlan
	PluginVersion  = reload.PluginVersion
	Plugin         = reload.Plugin
	Update         = reload.Update
	ToolChange     = registry.Change
	Transition     = registry.Transition
	ToolState      = registry.State
	ToolLife       = registry.LifeStatus
	ToolStats      = metrics.ToolStats
	PluginStats    = metrics.PluginStats
	Times          = metrics.Times
	Usage          = metrics.Usage
	LogEntry       = state.AuditEntry
	LogQuery       = state.AuditQuery
	HistoryEntry   = state.Entry
	Answer         = state.Answer
	Decision       = policy.Decision
	PermissionTest = config.PermissionTest
)

// The outcomes of a plugin's reload.
const (
	Swapped = reload.Swapped
	Added   = reload.Added
	Removed = reload.Removed
	Refused = reload.Refused
)

// How long an answer to a permission ask holds.
const (
	ScopeOnce    = policy.Once
	ScopeSession = policy.Session
	ScopeAlways  = policy.Always
	ScopeNever   = policy.Never
)

// Reload applies what changed. See [reload.Reloader.Reload].
func (e *Engine) Reload(ctx context.Context, opts ReloadOptions) (*ReloadReport, error) {
	return e.reloader.Reload(ctx, opts)
}

// Plan returns what Reload would change. See [reload.Reloader.Plan].
func (e *Engine) Plan(ctx context.Context) (*Plan, error) { return e.reloader.Plan(ctx) }

// SetEnabled enables or disables a tool or the tools of a plugin. See [reload.Reloader.SetEnabled].
func (e *Engine) SetEnabled(name string, on bool) error { return e.reloader.SetEnabled(name, on) }

// AddAlias adds another name for a tool. See [reload.Reloader.AddAlias].
func (e *Engine) AddAlias(name, tool string, params map[string]string) error {
	return e.reloader.AddAlias(name, tool, params)
}

// RemoveAlias removes an added alias.
func (e *Engine) RemoveAlias(name string) error { return e.reloader.RemoveAlias(name) }

// Register adds a plugin. See [reload.Reloader.Register].
func (e *Engine) Register(ctx context.Context, p Plugin) error { return e.reloader.Register(ctx, p) }

// Unregister removes a plugin. See [reload.Reloader.Unregister].
func (e *Engine) Unregister(ctx context.Context, name string) error {
	return e.reloader.Unregister(ctx, name)
}

// Subscribe calls f with each update.
func (e *Engine) Subscribe(f func(Update)) (cancel func()) {
	return e.reloader.Updates().Subscribe(f)
}

// SubscribeStates calls f with each transition in the life of a tool.
func (e *Engine) SubscribeStates(f func(Transition)) (cancel func()) {
	return e.reloader.States().Subscribe(f)
}

// PermissionTests returns the tests of the configuration.
func (e *Engine) PermissionTests() []PermissionTest { return e.Current().Config.Permissions.Tests }
