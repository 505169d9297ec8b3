package engine

import (
	"context"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

// The following aliases name the types in the methods of [Engine]. Package host uses the aliases, because engine is the
// only internal package that it imports.

// Client receives the events of a running call and answers its questions. The engine adds the methods that it lacks;
// see [call.Complete].
type Client = call.Caller

// Ledger records a call. See host.Ledger.
type Ledger = call.Ledger

// AskQueue contains unanswered permission requests and questions. People can answer them through another host.
type AskQueue = control.AskQueue

// Listening describes the listening socket that a server offers to other processes.
type Listening = control.Listening

// Taken is a socket that this process acquired from another host.
type Taken = control.Taken

// Console is the answer to a request for a link to the web console.
type Console = control.Console

// Hook is a hook of the embedding program.
type Hook = hook.Hook

// ReloadOptions selects what to reload.
type ReloadOptions = reload.Options

// ReloadReport describes the outcome of a reload.
type ReloadReport = reload.Report

// ConfigReport describes the outcome of a reload for the configuration.
type ConfigReport = reload.ConfigReport

// PluginReport describes the outcome of a reload for one plugin.
type PluginReport = reload.PluginReport

// Plan describes the changes that a reload would make.
type Plan = reload.Plan

// PluginPlan describes the planned change of one plugin.
type PluginPlan = reload.PluginPlan

// PluginVersion identifies a plugin's binary.
type PluginVersion = reload.PluginVersion

// Plugin describes a plugin for registration at run time.
type Plugin = reload.Plugin

// Update describes changes that a reload or an operator made.
type Update = reload.Update

// ToolChange is a difference between two definitions of a tool.
type ToolChange = registry.Change

// Transition is a change of a tool's state.
type Transition = registry.Transition

// ToolState is the state of a tool, such as running.
type ToolState = registry.State

// ToolLife is a tool's current state, together with the tool's earlier states.
type ToolLife = registry.LifeStatus

// ToolStats holds the statistics of one tool's calls.
type ToolStats = telemetry.ToolStats

// PluginStats holds the statistics of one plugin's processes.
type PluginStats = telemetry.PluginStats

// Times summarizes the durations of calls.
type Times = telemetry.Times

// Usage is the resource usage of processes.
type Usage = telemetry.Usage

// LogEntry records one call in the audit log.
type LogEntry = state.AuditEntry

// LogQuery selects entries of the audit log.
type LogQuery = state.AuditQuery

// HistoryEntry is one command in a session's history.
type HistoryEntry = state.Entry

// Answer is a remembered answer to a permission request.
type Answer = state.Answer

// Decision is the policy's decision about a call.
type Decision = policy.Decision

// PermissionTest is a test case: the expected decision of the policy about a command.
type PermissionTest = config.PermissionTest

// Outcomes of a reload for a plugin.
const (
	Swapped    = reload.Swapped
	Added      = reload.Added
	Removed    = reload.Removed
	Refused    = reload.Refused
	RollingOut = reload.RollingOut
)

// Scopes of an answer to a permission request.
const (
	ScopeOnce    = policy.Once
	ScopeSession = policy.Session
	ScopeAlways  = policy.Always
	ScopeNever   = policy.Never
)

// Reload applies changes of the configuration and of plugin binaries. See [reload.Reloader.Reload].
func (e *Engine) Reload(ctx context.Context, opts ReloadOptions) (*ReloadReport, error) {
	return e.reloader.Reload(ctx, opts)
}

// Renew applies changed pins and approvals.
func (e *Engine) Renew(ctx context.Context, by string) (*reload.Report, error) {
	e.reloader.Renew()
	return e.reloader.Reload(ctx, reload.Options{By: by})
}

// Plan returns the changes that Reload would make. See [reload.Reloader.Plan].
func (e *Engine) Plan(ctx context.Context) (*Plan, error) { return e.reloader.Plan(ctx) }

// SetEnabled enables or disables a tool or the tools of a plugin for a principal. See [reload.Reloader.SetEnabled].
func (e *Engine) SetEnabled(name string, on bool, by string) error {
	err := e.reloader.SetEnabled(name, on)
	what, refused := "(disable)", ""
	if on {
		what = "(enable)"
	}
	if err != nil {
		refused = err.Error()
	}
	e.reloader.Audit(by, what, map[string]any{"name": name}, refused)
	return err
}

// Rollout carries out an action on the rollout of a plugin. See [reload.Reloader.Rollout].
func (e *Engine) Rollout(plugin, action, by string) error {
	return e.reloader.Rollout(plugin, action, by)
}

// LayerAdministration is the layer of audit log entries about actions of operators.
const LayerAdministration = reload.LayerAdministration

// ConfigHistory is the history of a configuration.
type ConfigHistory = reload.History

// ServedConfig is a configuration that a host used.
type ServedConfig = reload.Served

// RolledBack describes the outcome of a rollback.
type RolledBack = reload.RolledBack

// ConfigHistory returns the configurations that hosts used at the path of this host's configuration, newest first.
func (e *Engine) ConfigHistory() (*ConfigHistory, error) {
	return reload.HistoryOf(e.state, e.reloader.Source.Path)
}

// ServedConfig returns an entry of the history with its files.
func (e *Engine) ServedConfig(id int64) (*ServedConfig, error) {
	return reload.ServedConfig(e.state, e.reloader.Source.Path, id)
}

// Rollback restores an earlier configuration and applies it. See [reload.Reloader.Rollback].
func (e *Engine) Rollback(ctx context.Context, id int64, by string) (*RolledBack, error) {
	return e.reloader.Rollback(ctx, id, by)
}

// AddAlias adds an additional name for a tool. See [reload.Reloader.AddAlias].
func (e *Engine) AddAlias(name, tool string, params map[string]string) error {
	return e.reloader.AddAlias(name, tool, params)
}

// RemoveAlias removes an alias that AddAlias added.
func (e *Engine) RemoveAlias(name string) error { return e.reloader.RemoveAlias(name) }

// Register adds a plugin. See [reload.Reloader.Register].
func (e *Engine) Register(ctx context.Context, p Plugin) error { return e.reloader.Register(ctx, p) }

// Unregister removes a plugin. See [reload.Reloader.Unregister].
func (e *Engine) Unregister(ctx context.Context, name string) error {
	return e.reloader.Unregister(ctx, name)
}

// Subscribe calls f with each update until the caller calls cancel.
func (e *Engine) Subscribe(f func(Update)) (cancel func()) {
	return e.reloader.Updates().Subscribe(f)
}

// Item is an object other than a tool that a plugin offers to MCP clients, such as a prompt.
type Item = registry.Item

// Exchange identifies the plugin, the method and the item of a request of an MCP client.
type Exchange = call.Exchange

// Notice is a notification of a plugin for MCP clients.
type Notice = reload.Notice

// Items returns everything except tools that plugins offer to MCP clients.
func (e *Engine) Items() []*Item { return e.Current().Registry.Items() }

// Listen calls f with each notification of a plugin for MCP clients until the caller calls cancel.
func (e *Engine) Listen(f func(Notice)) (cancel func()) {
	return e.reloader.Notices().Subscribe(f)
}

// SubscribeStates calls f with each state transition of a tool until the caller calls cancel.
func (e *Engine) SubscribeStates(f func(Transition)) (cancel func()) {
	return e.reloader.States().Subscribe(f)
}

// PermissionTests returns the permission tests in the configuration.
func (e *Engine) PermissionTests() []PermissionTest { return e.Current().Config.Permissions.Tests }

// ReachesPerson reports whether a person can immediately answer the questions that a client receives.
func ReachesPerson(c Client) bool { return call.Complete(c).ReachesPerson() }

// Decided reports whether a client answers permission requests without asking a person.
func Decided(c Client) bool { return call.Complete(c).Decided() }

// Parks reports whether a client's question goes to a person who may never come back with the answer.
func Parks(c Client) bool { return call.Complete(c).Parks() }

// AnswersRequests reports whether a client answers requests of MCP servers.
func AnswersRequests(c Client) bool { return call.Complete(c).AnswersRequests() }

// Log passes a log message on to a client. It does nothing if the client does not accept log messages.
func Log(c Client, m tool.LogMessage) { call.Complete(c).Log(m) }
