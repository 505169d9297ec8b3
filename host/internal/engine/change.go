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

// Package host imports no other internal package, so the types of the methods of [Engine] have names here.

// Hook is an embedder's hook.
type Hook = hook.Hook

// ReloadOptions says what to reload.
type ReloadOptions = reload.Options

// ReloadReport is the outcome of a reload.
type ReloadReport = reload.Report

// ConfigReport is the outcome of a reload for the configuration.
type ConfigReport = reload.ConfigReport

// PluginReport is the outcome of a reload for one plugin.
type PluginReport = reload.PluginReport

// Plan is what a reload would change.
type Plan = reload.Plan

// PluginPlan is the planned change of one plugin.
type PluginPlan = reload.PluginPlan

// PluginVersion identifies a plugin's binary.
type PluginVersion = reload.PluginVersion

// Plugin is a plugin that is registered at run time.
type Plugin = reload.Plugin

// Update is what a reload or an operator changed.
type Update = reload.Update

// ToolChange is a difference between two definitions of a tool.
type ToolChange = registry.Change

// Transition is a step in the life of a tool.
type Transition = registry.Transition

// ToolState is a state in the life of a tool.
type ToolState = registry.State

// ToolLife is a tool's state with its history.
type ToolLife = registry.LifeStatus

// ToolStats are the figures of the calls of one tool.
type ToolStats = metrics.ToolStats

// PluginStats are the figures of the processes of one plugin.
type PluginStats = metrics.PluginStats

// Times summarizes how long calls took.
type Times = metrics.Times

// Usage is what processes use.
type Usage = metrics.Usage

// LogEntry is one call in the audit log.
type LogEntry = state.AuditEntry

// LogQuery selects entries of the audit log.
type LogQuery = state.AuditQuery

// HistoryEntry is one command of a session.
type HistoryEntry = state.Entry

// Answer is a remembered answer to a permission ask.
type Answer = state.Answer

// Decision is the policy's decision about a call.
type Decision = policy.Decision

// PermissionTest states what the policy must decide about a command.
type PermissionTest = config.PermissionTest

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
