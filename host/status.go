package host

import (
	"context"
	"iter"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
)

// Tool describes one registered tool.
type Tool = engine.Tool

// Workspace returns the absolute path of the default workspace, with symbolic links resolved.
func (h *Host) Workspace() string { return h.engine.Workspace() }

// Tools returns the registered tools in the order of the configuration, including disabled ones.
func (h *Host) Tools() []Tool { return h.engine.Tools() }

// RoleName returns the full name of the tool with a role, also if it is disabled. It returns "" if no tool has the
// role.
func (h *Host) RoleName(role tool.Role) string { return h.engine.Current().Registry.RoleName(role) }

// AllTools returns an iterator over the tools that Tools returns. It does not copy the list, which can be long.
func (h *Host) AllTools() iter.Seq[Tool] { return h.engine.AllTools() }

// Health asks a tool's plugin for the health of the tool. It starts the plugin if needed. For an empty or unknown name
// it returns HealthNotFound. For the health of whole plugins, see [Host.Status].
func (h *Host) Health(ctx context.Context, name string) tool.Health {
	return h.engine.Health(ctx, name)
}

// ActiveCall is a call that runs or waits, with the end of its output.
type ActiveCall = engine.ActiveCall

// ActiveCalls returns the calls that run or wait and that a principal can see, oldest first, and their number. It
// returns at most limit calls. A principal can see its own calls and the calls of principals that it supervises; see
// [Principal.Supervises].
func (h *Host) ActiveCalls(who *Principal, limit int) (calls []ActiveCall, total int) {
	return h.engine.ActiveCalls(who, limit)
}

// AskDigest returns a hash of the content of an ask, which finds the ask for whose answer an [ActiveCall] waits.
func AskDigest(ask tool.Ask) string { return engine.AskDigest(ask) }

// CancelCall cancels a call. The id comes from [Host.ActiveCalls]. The argument "by" is the principal for the audit
// log. CancelCall returns false if no call with this id runs.
func (h *Host) CancelCall(id int64, by *Principal) bool { return h.engine.CancelCall(id, by.Name) }

// Status describes the state of a host for its operator.
type Status = engine.Status

// PluginStatus describes the state of one plugin.
type PluginStatus = engine.PluginStatus

// RolloutStatus describes the rollout of a new version of a plugin.
type RolloutStatus = engine.RolloutStatus

// RolloutFigures describes the calls of one version in a rollout.
type RolloutFigures = engine.RolloutFigures

// QuotaStatus describes the use of the quota of a field or a principal.
type QuotaStatus = engine.QuotaStatus

// CallStatus describes a call that runs or waits.
type CallStatus = engine.CallStatus

// Status returns the state of the host. It starts no plugin. It asks running plugins for their health and waits at most
// two seconds for each plugin.
func (h *Host) Status() Status { return h.engine.Status() }

// StatusFor returns what [Host.Status] returns, without the sessions and calls that a principal cannot see.
func (h *Host) StatusFor(who *Principal) Status { return h.engine.StatusFor(who) }

// Signals are measurements of a host for its operator, and its alarms.
type Signals = engine.Signals

// PluginSignals describes the supervision of a plugin.
type PluginSignals = engine.PluginSignals

// Alarm is a problem that an operator must know.
type Alarm = engine.Alarm

// AlarmConfig is the kind of the alarm for a host that does not use the configuration on disk.
const AlarmConfig = engine.AlarmConfig

// Signals returns the current signals. It asks running plugins for their health and waits at most two seconds. The
// result can be two seconds old.
func (h *Host) Signals() Signals { return h.engine.Signals() }

// Stats holds counters and measurements since the start of a host. Reloads do not reset them.
type Stats = engine.Stats

// ToolStats holds the statistics of one tool's calls.
type ToolStats = engine.ToolStats

// PluginStats holds the statistics of one plugin's processes.
type PluginStats = engine.PluginStats

// Times summarizes the durations of calls, in milliseconds.
type Times = engine.Times

// Usage is the resource usage of processes.
type Usage = engine.Usage

// Stats returns the current statistics. It reads a few files in /proc for each plugin process. The statistics include
// every call whose result was returned.
func (h *Host) Stats() Stats { return h.engine.Stats() }

// LogEntry records one call in the audit log.
type LogEntry = engine.LogEntry

// LayerAdministration is the layer of the entries in the audit log that record what operators did.
const LayerAdministration = engine.LayerAdministration

// LogQuery selects entries of the audit log. The zero value selects all entries.
type LogQuery = engine.LogQuery

// Log returns entries of the audit log, oldest first. A call appears in the log shortly after its end.
func (h *Host) Log(q LogQuery) ([]LogEntry, error) { return h.engine.State().AuditLog(q) }

// Answer is a remembered answer to a permission ask.
type Answer = engine.Answer

// Answers returns the remembered answers of all sessions and workspaces.
func (h *Host) Answers() ([]Answer, error) { return h.engine.State().Answers() }

// Revoke deletes the answer with the given id, or all answers if id is 0. It returns the number of deleted answers.
func (h *Host) Revoke(id int64) (int64, error) { return h.engine.State().Revoke(id) }
