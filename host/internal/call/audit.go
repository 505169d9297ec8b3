package call

import (
	"encoding/json"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox/execgate"
)

// AuditEntry returns the audit log entry of the call with the given result.
func (c *Call) AuditEntry(res *tool.Result) state.AuditEntry {
	id := &c.Identity
	e := state.AuditEntry{
		Principal: c.Request.Session.Principal.Name,
		At:        id.Started, Session: c.Request.Session.ID, Workspace: c.Request.Session.Workspace,
		Call: c.Request.ID, Parent: id.Parent, Tool: res.Run.Tool, Layer: string(id.Command.Layer),
		Arguments: c.auditArguments(), Duration: time.Since(id.Started), Outcome: "success", Trace: c.at.ID(),
		Plugin: res.Run.Plugin, Version: res.Run.PluginVersion,
	}
	if e.Tool == "" {
		e.Tool = id.Command.Name
		if id.Command.Namespace != "" {
			e.Tool = id.Command.Namespace + ":" + e.Tool
		}
	}
	if e.Plugin == "" && id.Tool != nil {
		e.Plugin = id.Tool.Plugin
	}
	for _, o := range c.Decision.Hooks {
		e.Hooks = append(e.Hooks, o.String())
	}
	if p := c.Decision.Policy; p != nil {
		e.Decision, e.Rule, e.Rewritten = string(p.Effect), p.Rule, p.Rewritten
	}
	e.Answered = c.Answered()
	e.Programs = AuditPrograms(c.Outcome.Programs)
	if res.Error != nil {
		e.Outcome, e.Error = string(res.Error.Kind), res.Error.Message
	}
	return e
}

// AuditPrograms returns the programs of a record for the audit log. It returns nil if the record has no program.
func AuditPrograms(r *execgate.Record) *state.Programs {
	if r == nil {
		return nil
	}
	out := &state.Programs{Count: r.Count, Denied: r.Denied, Omitted: r.Omitted, OmittedDenied: r.OmittedDenied,
		First: make([]state.Program, len(r.First))}
	for i, p := range r.First {
		out.First[i] = state.Program{Path: p.Path, Loads: p.Verdict.Loads, Command: p.Command, Times: p.Times,
			Decision: p.Verdict.Effect, Rule: p.Verdict.Rule, Answered: p.Verdict.Answered}
	}
	return out
}

// auditArguments returns the arguments that the plugin received. If no plugin received the call, it returns the
// original arguments.
func (c *Call) auditArguments() json.RawMessage {
	switch {
	case c.Decision.Sent != nil:
		return c.Decision.Sent.Arguments
	case c.Request.Name != "":
		return c.Request.Arguments
	}
	b, err := json.Marshal(map[string]string{"command": c.Identity.Command.Raw})
	if err != nil { // impossible for strings
		panic(err)
	}
	return b
}
