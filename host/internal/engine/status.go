package engine

import (
	"context"
	"os"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/grants"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
)

// Tool is one registered tool.
type Tool struct {
	tool.Definition
	// FullName is the name to call it by: "read", or "jira:search" in a namespace.
	FullName string `json:"full_name"`
	// FunctionName is the name for function calls of models, such as "jira_search": at most 40 letters, digits, '_' and
	// '-'. It is also a name to call the tool by.
	FunctionName string `json:"function_name"`
	Namespace    string `json:"namespace,omitempty"`
	Plugin       string `json:"plugin"`
	Enabled      bool   `json:"enabled"`
}

// Parameters returns the names of the tool's parameters in positional order.
func (t Tool) Parameters() []string {
	s, err := tool.ParseSchema(t.Input)
	if err != nil { // it was parsed when the tool was registered
		return nil
	}
	var out []string
	for _, p := range s.Params() {
		out = append(out, p.Name)
	}
	return out
}

// ToolOf returns a registered tool, without its function name.
func ToolOf(e *registry.Entry) Tool {
	return Tool{Definition: e.Definition, FullName: e.FullName(), Namespace: e.Namespace, Plugin: e.Plugin, Enabled: e.Enabled}
}

// Tools returns the registered tools in the order of the configuration, including disabled ones.
func (e *Engine) Tools() []Tool {
	r := e.Current().Registry
	entries, functions := r.All(), r.FunctionNames()
	out := make([]Tool, 0, len(entries))
	for _, entry := range entries {
		t := ToolOf(entry)
		t.FunctionName = functions[t.FullName]
		out = append(out, t)
	}
	return out
}

// Status is the state of a host for its operator.
type Status struct {
	Version string `json:"version"`
	// Config is the configuration's file or directory, or "built-in".
	Config string `json:"config"`
	// ConfigRefused says why the configuration on disk is not in use. Empty means that it is.
	ConfigRefused string `json:"config_refused,omitempty"`
	Workspace     string `json:"workspace"`
	// StateDB is the path of the state database. Empty means that it is in memory.
	StateDB string         `json:"state_db"`
	Plugins []PluginStatus `json:"plugins"`
	// Tools are the states of all tools, including those that could not be registered.
	Tools []registry.LifeStatus `json:"tools"`
	// Problems describes everything that does not work.
	Problems []string `json:"problems"`
	// Sessions are those used last.
	Sessions []state.Session `json:"sessions"`
}

// PluginStatus is the state of one plugin, with its tools.
type PluginStatus struct {
	supervisor.Status
	Field string   `json:"field,omitempty"`
	Tools []string `json:"tools"`
	// DependsOn names the plugins that start before it.
	DependsOn []string `json:"depends_on,omitempty"`
	// Health is what the plugin reports while it is running.
	Health *tool.Health `json:"health,omitempty"`
	// Unneeded lists the grants that the plugin does not need.
	Unneeded []grants.Extra `json:"unneeded,omitempty"`
	// Unapproved lists how its tools differ from the approved definitions, and UnapprovedSince is when that was first
	// reported.
	Unapproved      []registry.Change `json:"unapproved,omitempty"`
	UnapprovedSince time.Time         `json:"unapproved_since,omitzero"`
	// Refused says why the version on disk is not the one that serves. Empty means that it is.
	Refused string `json:"refused,omitempty"`
}

// maxStatusSessions is the number of sessions in a status.
const maxStatusSessions = 20

// Status returns the state of the host. It starts nothing; plugins that are running are asked for their health.
func (e *Engine) Status() Status {
	g := e.Current()
	st := Status{
		Version: Version, Config: g.Config.Source, Workspace: e.opts.Workspace, StateDB: e.state.Path(),
		Plugins: []PluginStatus{}, Problems: append([]string{}, e.Problems()...), Sessions: []state.Session{},
		ConfigRefused: e.reloader.ConfigRefusal(), Tools: e.reloader.Lives(),
	}
	for i := range st.Tools {
		if entry := g.Registry.Find(st.Tools[i].Name); entry != nil {
			st.Tools[i].Plugin = entry.Plugin
		}
	}
	for _, p := range g.Plugins {
		st.Plugins = append(st.Plugins, e.pluginStatus(g, p))
	}
	sessions, err := e.state.Sessions(maxStatusSessions)
	if err != nil {
		st.Problems = append(st.Problems, "The sessions cannot be listed: "+err.Error())
	}
	st.Sessions = append(st.Sessions, sessions...)
	return st
}

func (e *Engine) pluginStatus(g *generation.Generation, p *generation.Plugin) PluginStatus {
	ps := PluginStatus{Status: p.Process.Status(), Field: p.Field, DependsOn: p.DependsOn, Tools: []string{}}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if health, ok := p.Process.Health(ctx, ""); ok {
		ps.Health = &health
	}
	if why := g.Unloaded[p.Name]; why != "" && ps.Error == "" {
		ps.Error = why
	}
	if d := p.Description(); d != nil {
		ps.Unneeded = grants.Unneeded(&p.Plugin, d.Needs)
	}
	if r := g.Review(p.Name); r != nil {
		ps.Unapproved, ps.UnapprovedSince = r.Changes, r.Since
	}
	ps.Refused = e.reloader.Refusal(p.Name)
	for _, entry := range g.Registry.All() {
		if entry.Plugin == p.Name {
			ps.Tools = append(ps.Tools, entry.FullName())
		}
	}
	return ps
}

// Stats are the counters and measurements of a host since it began. Reloads do not reset them.
type Stats struct {
	// Tools that were called, by name, including removed ones.
	Tools []metrics.ToolStats `json:"tools"`
	// Plugins that were started, by name, including removed ones.
	Plugins []metrics.PluginStats `json:"plugins"`
}

// Stats returns the current figures. It reads a few files in /proc for every process of a plugin. A call is counted by the time
// its result is returned.
func (e *Engine) Stats() Stats {
	var processes []metrics.Process
	e.super.Running(func(plugin string, pid int) { processes = append(processes, metrics.Process{Plugin: plugin, PID: pid}) })
	m := &e.reloader.Builder.Calls.Metrics
	out := Stats{Tools: m.Tools(), Plugins: m.Plugins(processes)}
	d := e.Current().Dispatch
	for i := range out.Tools {
		out.Tools[i].Adaptive = d.Adapted(out.Tools[i].Name)
	}
	return out
}

// RemoteStatus is the status of a running host in another process.
type RemoteStatus struct {
	PID   int       `json:"pid"`
	Began time.Time `json:"began"`
	Status
}

// RemoteStats are the stats of a running host in another process.
type RemoteStats struct {
	PID       int       `json:"pid"`
	Began     time.Time `json:"began"`
	Workspace string    `json:"workspace"`
	Stats
}

func (e *Engine) remoteStatus() RemoteStatus {
	return RemoteStatus{PID: os.Getpid(), Began: e.live.began, Status: e.Status()}
}

func (e *Engine) remoteStats() RemoteStats {
	return RemoteStats{PID: os.Getpid(), Began: e.live.began, Workspace: e.opts.Workspace, Stats: e.Stats()}
}
