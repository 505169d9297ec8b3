package host

import (
	"context"
	"time"

	"toolhost.dev/host/internal/metrics"
)

// ToolStats is what became of the calls of one tool.
type ToolStats = metrics.ToolStats

// PluginStats is what the processes of one plugin are and were.
type PluginStats = metrics.PluginStats

// Times sums up how long calls took, in milliseconds.
type Times = metrics.Times

// Usage is what processes use.
type Usage = metrics.Usage

// Stats is what a host has counted and measured since it began, whatever was reloaded meanwhile.
type Stats struct {
	// Tools that were called, by name, also those that are gone.
	Tools []ToolStats `json:"tools"`
	// Plugins that were started, by name, also those that are gone.
	Plugins []PluginStats `json:"plugins"`
}

// Stats gives what there is at the moment. It reads a few files in /proc for every process of a plugin; the
// counts of a call are in it as soon as its result was given.
func (h *Host) Stats() Stats {
	var processes []metrics.Process
	h.super.Running(func(plugin string, pid int) { processes = append(processes, metrics.Process{Plugin: plugin, PID: pid}) })
	out := Stats{Tools: h.metrics.Tools(), Plugins: h.metrics.Plugins(processes)}
	d := h.current.Load().dispatch
	for i := range out.Tools {
		out.Tools[i].Adaptive = d.Adapted(out.Tools[i].Name)
	}
	return out
}

// RemoteStats are the stats of a running host as another process sees them.
type RemoteStats struct {
	PID       int       `json:"pid"`
	Began     time.Time `json:"began"`
	Workspace string    `json:"workspace"`
	Stats
}

// Stats asks the host for its stats.
func (r Remote) Stats(ctx context.Context) (*RemoteStats, error) {
	out := new(RemoteStats)
	return out, r.socket.Ask(ctx, opStats, nil, out)
}
