package host

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
)

// Tool is one registered tool.
type Tool = engine.Tool

// Tools returns the registered tools in the order of the configuration, including disabled ones.
func (h *Host) Tools() []Tool { return h.engine.Tools() }

// Health asks the plugin of a tool for the tool's health, and starts the plugin if needed. An empty or unknown name is not
// found; [Host.Status] has the health of whole plugins.
func (h *Host) Health(ctx context.Context, name string) tool.Health {
	return h.engine.Health(ctx, name)
}

// Status is the state of a host for its operator.
type Status = engine.Status

// PluginStatus is the state of one plugin.
type PluginStatus = engine.PluginStatus

// Status returns the state of the host. It starts nothing; plugins that are running are asked for their health, for at most
// two seconds each.
func (h *Host) Status() Status { return h.engine.Status() }

// Stats are the counters and measurements of a host since it began. Reloads do not reset them.
type Stats = engine.Stats

// ToolStats are the figures of the calls of one tool.
type ToolStats = engine.ToolStats

// PluginStats are the figures of the processes of one plugin.
type PluginStats = engine.PluginStats

// Times summarizes how long calls took, in milliseconds.
type Times = engine.Times

// Usage is what processes use.
type Usage = engine.Usage

// Stats returns the current figures. It reads a few files in /proc for every process of a plugin. A call is counted by the time
// its result is returned.
func (h *Host) Stats() Stats { return h.engine.Stats() }

// LogEntry is one call in the audit log.
type LogEntry = engine.LogEntry

// LogQuery selects entries of the audit log. The zero value selects all.
type LogQuery = engine.LogQuery

// Log returns entries of the audit log, oldest first. A call is in it a moment after it ended.
func (h *Host) Log(q LogQuery) ([]LogEntry, error) { return h.engine.State().AuditLog(q) }

// Answer is a remembered answer to a permission ask.
type Answer = engine.Answer

// Answers returns the remembered answers of all sessions and workspaces.
func (h *Host) Answers() ([]Answer, error) { return h.engine.State().Answers() }

// Revoke forgets a remembered answer, or all of them if id is 0. It returns how many.
func (h *Host) Revoke(id int64) (int64, error) { return h.engine.State().Revoke(id) }
