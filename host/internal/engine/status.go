package engine

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
)

// Tool describes one registered tool.
type Tool struct {
	tool.Definition
	// FullName is the name of the tool in calls, such as "read", or "jira:search" for a tool in a namespace.
	FullName string `json:"full_name"`
	// FunctionName is the name of the tool in function calls of models, such as "jira_search". It consists of at most
	// 48 letters, digits, '_' and '-'. Requests can also use this name.
	FunctionName string `json:"function_name"`
	Namespace    string `json:"namespace,omitempty"`
	Plugin       string `json:"plugin"`
	Enabled      bool   `json:"enabled"`
	// Limits describes which actions the sandbox denies to the tool's commands. It is empty for a tool without commands
	// and for an unconfined tool.
	Limits string `json:"limits,omitempty"`
}

// Parameters returns the names of the tool's parameters in positional order.
func (t Tool) Parameters() []string {
	s, err := tool.ParseSchema(t.Input)
	if err != nil { // impossible, because registration parsed the schema
		return nil
	}
	var out []string
	for _, p := range s.Params() {
		out = append(out, p.Name)
	}
	return out
}

// ToolOf returns the description of a registered tool, with an empty FunctionName and no Limits.
func ToolOf(e *registry.Entry) Tool {
	return Tool{
		Definition: e.Definition, FullName: e.FullName(), Namespace: e.Namespace, Plugin: e.Plugin, Enabled: e.Enabled,
	}
}

// listing holds the tools of a generation.
type listing struct {
	of    *generation.Generation
	tools []Tool
}

// Tools returns the registered tools in the order of the configuration, including disabled ones.
func (e *Engine) Tools() []Tool { return slices.Clone(e.listed()) }

// AllTools returns an iterator over the tools that Tools returns. It does not copy the list, which can be long.
func (e *Engine) AllTools() iter.Seq[Tool] { return slices.Values(e.listed()) }

// listed returns the tools of the current generation. The caller must not modify them.
func (e *Engine) listed() []Tool {
	g := e.Current()
	l := e.listing.Load()
	if l == nil || l.of != g {
		l = &listing{g, toolsOf(g)}
		e.listing.Store(l)
	}
	return l.tools
}

func toolsOf(g *generation.Generation) []Tool {
	entries, functions := g.Registry.All(), g.Registry.FunctionNames()
	out := make([]Tool, 0, len(entries))
	for _, entry := range entries {
		t := ToolOf(entry)
		t.FunctionName = functions[t.FullName]
		if entry.Has(tool.RoleShell) {
			if p := g.Plugin(t.Plugin); p != nil {
				t.Limits = g.Launcher.Limits(&p.Plugin)
			}
		}
		out = append(out, t)
	}
	return out
}

// Status describes the state of a host for its operator.
type Status struct {
	Version string `json:"version"`
	// Config is the file or directory of the configuration, or "built-in".
	Config string `json:"config"`
	// ConfigRefused is the reason why the host does not use the configuration on disk. Empty means that the host uses
	// it.
	ConfigRefused string `json:"config_refused,omitempty"`
	Workspace     string `json:"workspace"`
	// StateDB is the path of the state database. Empty means that the database is in memory.
	StateDB string         `json:"state_db"`
	Plugins []PluginStatus `json:"plugins"`
	// Tools lists the states of all tools, including tools that could not be registered.
	Tools []registry.LifeStatus `json:"tools"`
	// Problems lists all known failures; see [Engine.Problems].
	Problems []string `json:"problems"`
	// Sessions lists the most recently used sessions.
	Sessions []SessionStatus `json:"sessions"`
	// Quotas describes the use of the quotas of fields and principals. It is empty without quotas.
	Quotas []QuotaStatus `json:"quotas,omitempty"`
	// Rollouts describes the last rollout of each plugin.
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// Calls lists the running and the waiting calls, with the reason why a call waits.
	Calls []CallStatus `json:"calls"`
	// Signals are further measurements, and the alarms. See [Engine.Signals].
	Signals Signals `json:"signals"`
}

// SessionStatus describes a session.
type SessionStatus struct {
	state.Session
	// Summaries contains one line about the session by the name of the plugin, such as the progress of its tasks.
	Summaries map[string]string `json:"summaries,omitempty"`
}

// CallStatus describes a call that runs or waits.
type CallStatus = scheduler.CallStatus

// RolloutStatus describes the rollout of a new version of a plugin.
type RolloutStatus = rollout.Status

// RolloutFigures describes the calls of one version in a rollout.
type RolloutFigures = rollout.Figures

// QuotaStatus describes the use of the quota of a field or a principal.
type QuotaStatus = quota.Status

// PluginStatus describes the state of one plugin and its tools.
type PluginStatus struct {
	supervisor.Status
	Field string   `json:"field,omitempty"`
	Tools []string `json:"tools"`
	// DependsOn lists the plugins that start before this plugin.
	DependsOn []string `json:"depends_on,omitempty"`
	// Health is the health that a running plugin reports.
	Health *tool.Health `json:"health,omitempty"`
	// Unneeded lists permissions that the operator granted but the plugin does not need.
	Unneeded []privilege.UnneededGrant `json:"unneeded,omitempty"`
	// Unapproved lists differences between the plugin's tool definitions and the approved definitions. UnapprovedSince
	// is the time when the operator was first notified of them.
	Unapproved      []registry.Change `json:"unapproved,omitempty"`
	UnapprovedSince time.Time         `json:"unapproved_since,omitzero"`
	// Refused is the reason why the host does not use the plugin's version on disk. Empty means that the host uses it.
	Refused string `json:"refused,omitempty"`
}

// maxStatusSessions is the maximum number of sessions in a status.
const maxStatusSessions = 20

// StatusFor returns the state of the host without the sessions and calls that a principal cannot see.
func (e *Engine) StatusFor(who *Principal) Status {
	st := e.Status()
	st.Sessions = slices.DeleteFunc(st.Sessions, func(s SessionStatus) bool { return !who.SeesSession(s.ID) })
	st.Calls = slices.DeleteFunc(st.Calls, func(c CallStatus) bool { return !who.SeesSession(c.Session) })
	return st
}

// Status returns the state of the host. It queries the health of running plugins but starts no plugin.
func (e *Engine) Status() Status {
	g := e.Current()
	st := Status{
		Version: Version, Config: g.Config.Source, Workspace: e.opts.Workspace, StateDB: e.state.Path(),
		Plugins: []PluginStatus{}, Problems: append([]string{}, e.Problems()...), Sessions: []SessionStatus{},
		ConfigRefused: e.reloader.ConfigRefusal(), Tools: e.reloader.Lives(),
		Calls: e.reloader.Builder.Calls.Scheduler.Calls(), Quotas: e.quotas(),
		Rollouts: e.reloader.Builder.Calls.Rollouts.Status(),
	}
	for i := range st.Tools {
		if entry := g.Registry.Find(st.Tools[i].Name); entry != nil {
			st.Tools[i].Plugin = entry.Plugin
		}
	}
	for _, p := range g.Plugins {
		st.Plugins = append(st.Plugins, e.pluginStatus(g, p))
	}
	st.Signals = e.Signals()
	for _, a := range st.Signals.Alarms {
		if !slices.ContainsFunc(st.Problems,
			func(p string) bool { return strings.Contains(a.Message, strings.TrimSuffix(p, ".")) }) {
			st.Problems = append(st.Problems, a.Message)
		}
	}
	sessions, err := e.state.Sessions(maxStatusSessions)
	if err != nil {
		st.Problems = append(st.Problems, "The sessions cannot be listed: "+err.Error())
	}
	for _, s := range sessions {
		summaries, err := e.state.Summaries(s.ID)
		if err != nil {
			st.Problems = append(st.Problems, fmt.Sprintf("The state of session %s cannot be read: %v", s.ID, err))
		}
		st.Sessions = append(st.Sessions, SessionStatus{s, summaries})
	}
	return st
}

// quotas returns the use of the quotas in the current configuration.
func (e *Engine) quotas() []QuotaStatus {
	return e.reloader.Builder.Calls.Quota.Status(e.Current().Config.Quotas)
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
		ps.Unneeded = privilege.UnneededGrants(&p.Plugin, d.Needs)
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

// Stats holds counters and measurements since the start of a host. Reloads do not reset them.
type Stats struct {
	// Tools lists the tools that were called, sorted by name. It includes removed tools.
	Tools []telemetry.ToolStats `json:"tools"`
	// Plugins lists the plugins that were started, sorted by name. It includes removed plugins.
	Plugins []telemetry.PluginStats `json:"plugins"`
	// Quotas describes the use of the quotas of fields and principals. It is empty without quotas.
	Quotas []QuotaStatus `json:"quotas,omitempty"`
	// Rollouts describes the last rollout of each plugin.
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
}

// Stats returns the current statistics. To do so, it reads a few files in /proc for each plugin process. The statistics
// include every call whose result was returned before.
func (e *Engine) Stats() Stats {
	var processes []telemetry.Process
	e.super.Running(func(plugin string, pid int) {
		processes = append(processes, telemetry.Process{Plugin: plugin, PID: pid})
	})
	m := &e.reloader.Builder.Calls.Metrics
	out := Stats{Tools: m.Tools(), Plugins: m.Plugins(processes), Quotas: e.quotas(),
		Rollouts: e.reloader.Builder.Calls.Rollouts.Status()}
	d := e.Current().Dispatch
	for i := range out.Tools {
		out.Tools[i].Adaptive = d.Adapted(out.Tools[i].Name)
	}
	return out
}

// RemoteStatus is the status of a host that runs in another process.
type RemoteStatus struct {
	PID   int       `json:"pid"`
	Began time.Time `json:"began"`
	Status
}

// RemoteStats holds the statistics of a host that runs in another process.
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

// ActiveCall is a call that runs or waits.
type ActiveCall struct {
	// ID identifies the call in this host, for [Engine.CancelCall]. Call is the id that the caller chose for the call.
	ID        int64  `json:"id"`
	Call      string `json:"call"`
	Session   string `json:"session"`
	Workspace string `json:"workspace"`
	Principal string `json:"principal"`
	// Text is the command, or the name of the tool with its arguments. Secrets are masked, and the text is cut after
	// 500 bytes.
	Text  string    `json:"text"`
	Began time.Time `json:"began"`
	// Output is the last part of the output, and Written is the total number of bytes of output.
	Output  string `json:"output,omitempty"`
	Written int64  `json:"written,omitempty"`
	// Waits is the reason why the call does not run yet, or does not continue.
	Waits string `json:"waits,omitempty"`
	// Ask is the digest of the ask for whose answer the call waits; see [AskDigest]. Empty means that it waits for no
	// answer.
	Ask string `json:"ask,omitempty"`
}

// AskDigest returns a hash of the content of an ask.
func AskDigest(ask tool.Ask) string { return call.AskDigest(ask) }

// maxCallText is the maximum size of the text of an active call, in bytes.
const maxCallText = 500

// ActiveCalls returns the running and waiting calls that a principal can see, oldest first, and their total number. The
// result "calls" contains at most limit calls.
func (e *Engine) ActiveCalls(who *Principal, limit int) (calls []ActiveCall, total int) {
	all := slices.DeleteFunc(e.flights.All(), func(c *call.Running) bool { return !who.Sees(c.Principal) })
	total = len(all)
	all = all[:min(limit, total)]
	type key struct{ session, id string }
	waits := make(map[key]string)
	for _, c := range e.reloader.Builder.Calls.Scheduler.Calls() {
		if !c.Running {
			waits[key{c.Session, c.ID}] = c.Reason
		}
	}
	calls = make([]ActiveCall, 0, len(all))
	for _, c := range all {
		out := ActiveCall{ID: c.Number, Call: c.ID, Session: c.Session, Workspace: c.Workspace, Principal: c.Principal,
			Began: c.Began, Waits: waits[key{c.Session, c.ID}]}
		out.Text = c.Text(e.callText)
		out.Output, out.Written = c.Tail()
		if a := c.Asking(); a != nil {
			out.Waits, out.Ask = "an answer to: "+e.state.MaskCommand(a.Title), a.Digest
		}
		calls = append(calls, out)
	}
	return calls, total
}

// callText returns the text of a call for people, with secrets masked.
func (e *Engine) callText(c *call.Running) string {
	text := c.Command
	if len(text) > 8*maxCallText {
		text = text[:8*maxCallText]
	}
	if c.Name != "" {
		arguments, _ := e.state.MaskJSON(c.Arguments)
		text = c.Name + " " + string(arguments)
	} else {
		text = e.state.MaskCommand(text)
	}
	if len(text) > maxCallText {
		text = text[:maxCallText] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// CancelCall cancels a call. The argument "by" names the principal that cancels it. CancelCall reports whether a call
// with this id exists.
func (e *Engine) CancelCall(id int64, by string) bool {
	c := e.flights.Cancel(id, by)
	if c == nil {
		return false
	}
	e.reloader.Audit(by, "(cancel)", map[string]any{"call": c.ID, "session": c.Session, "principal": c.Principal}, "")
	return true
}
