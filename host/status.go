package host

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
)

// Tool is one registered tool as an embedder sees it.
type Tool struct {
	tool.Definition
	// FullName is the name to call it by: "read", or "jira:search" in a namespace.
	FullName string `json:"full_name"`
	// FunctionName is the name for the function calls of models, "jira_search": at most 40
	// letters, digits, '_' and '-'. It is a name to call it by, too.
	FunctionName string `json:"function_name"`
	Namespace    string `json:"namespace,omitempty"`
	Plugin       string `json:"plugin"`
	Enabled      bool   `json:"enabled"`
}

// Parameters names the tool's parameters in positional order.
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

// Tools lists the registered tools in the order of the configuration, disabled ones too.
func (h *Host) Tools() []Tool {
	entries := h.current.Load().registry.All()
	functions := h.current.Load().registry.FunctionNames()
	out := make([]Tool, 0, len(entries))
	for _, e := range entries {
		t := describe(e)
		t.FunctionName = functions[t.FullName]
		out = append(out, t)
	}
	return out
}

func describe(e *registry.Entry) Tool {
	return Tool{Definition: e.Definition, FullName: e.FullName(), Namespace: e.Namespace, Plugin: e.Plugin, Enabled: e.Enabled}
}

// Status is what an operator wants to know of a host.
type Status struct {
	Version string `json:"version"`
	// Config is the configuration's file or directory, or "built-in".
	Config string `json:"config"`
	// ConfigRefused says why what is there now is not what is in use; empty: it is.
	ConfigRefused string `json:"config_refused,omitempty"`
	Workspace     string `json:"workspace"`
	// StateDB is the state database; empty: in memory.
	StateDB string         `json:"state_db"`
	Plugins []PluginStatus `json:"plugins"`
	// Tools are the states of all tools, also of those that could not be registered.
	Tools    []ToolLife `json:"tools"`
	Problems []string   `json:"problems"`
	// Sessions are the last used ones.
	Sessions []state.Session `json:"sessions"`
}

// PluginStatus is one plugin's state and its tools.
type PluginStatus struct {
	supervisor.Status
	Field string   `json:"field,omitempty"`
	Tools []string `json:"tools"`
	// DependsOn names the plugins that are started before it.
	DependsOn []string `json:"depends_on,omitempty"`
	// Health is what the plugin says of itself while it runs.
	Health *tool.Health `json:"health,omitempty"`
	// Unneeded are grants that the plugin has no need for.
	Unneeded []Unneeded `json:"unneeded,omitempty"`
	// Unapproved say how its tools differ from what the operator saw at first, or approved since.
	Unapproved      []ToolChange `json:"unapproved,omitempty"`
	UnapprovedSince time.Time    `json:"unapproved_since,omitzero"`
	// Refused says why what is on disk now is not what serves; empty: it is.
	Refused string `json:"refused,omitempty"`
}

// maxStatusSessions bounds the sessions in a status.
const maxStatusSessions = 20

// Status reports on the host without starting anything; plugins that run are asked how
// they are.
func (h *Host) Status() Status {
	g := h.current.Load()
	st := Status{
		Version: Version, Config: g.cfg.Source, Workspace: h.opts.Workspace, StateDB: h.state.Path(),
		Plugins: []PluginStatus{}, Problems: append([]string{}, h.Problems()...), Sessions: []state.Session{},
	}
	st.ConfigRefused = h.reloads.configRefusal()
	st.Tools = h.lives.Status()
	for i := range st.Tools {
		if e := g.registry.Find(st.Tools[i].Name); e != nil {
			st.Tools[i].Plugin = e.Plugin
		}
	}
	for _, m := range g.members {
		st.Plugins = append(st.Plugins, h.pluginStatus(g, m))
	}
	sessions, err := h.state.Sessions(maxStatusSessions)
	if err != nil {
		st.Problems = append(st.Problems, "The sessions cannot be listed: "+err.Error())
	}
	st.Sessions = append(st.Sessions, sessions...)
	return st
}

func (h *Host) pluginStatus(g *generation, m *member) PluginStatus {
	ps := PluginStatus{Status: m.plugin.Status(), Field: m.Field, DependsOn: m.DependsOn, Tools: []string{}}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if health, ok := m.plugin.Health(ctx, ""); ok {
		ps.Health = &health
	}
	if why := g.unloaded[m.Name]; why != "" && ps.Error == "" {
		ps.Error = why
	}
	if d := m.desc.Load(); d != nil {
		ps.Unneeded = unneeded(&m.Plugin, d.Needs)
	}
	if w := g.watchedPlugin(m.Name); w != nil {
		ps.Unapproved, ps.UnapprovedSince = w.changes, w.since
	}
	ps.Refused = h.reloads.refusal(m.Name)
	for _, e := range g.registry.All() {
		if e.Plugin == m.Name {
			ps.Tools = append(ps.Tools, e.FullName())
		}
	}
	return ps
}

// HistoryEntry is one command of a session.
type HistoryEntry = state.Entry

// History gives the last commands of the session a request belongs to, oldest first.
func (h *Host) History(req Request, limit int) ([]HistoryEntry, error) {
	s, err := h.session(req)
	if err != nil {
		return nil, err
	}
	return h.state.History(s.ID, limit)
}

// Cwd gives the working directory of the session a request belongs to.
func (h *Host) Cwd(req Request) (string, error) {
	s, err := h.session(req)
	return s.Cwd, err
}
