package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/router"
)

// commandNotFound is the shell's exit status for an unknown command.
const commandNotFound = 127

// Records records calls. Its fields must not change after the first call.
type Records struct {
	Registry *registry.Registry
	State    *state.DB
	// Metrics counts the calls. A nil Metrics disables the statistics.
	Metrics *telemetry.Metrics
}

// Stage completes the result of each call. It adds the call to the trace, the audit log, the metrics and the session's
// history. If the audit log cannot be written, it refuses the call.
func (r *Records) Stage() Stage {
	return Stage{Name: "record", Always: true, Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			res := unrecordable(r.State, c)
			if res == nil {
				res = next(ctx, c)
			}
			complete(c, res)
			r.suggest(c, res)
			c.EndSpan(res)
			r.State.AddAudit(c.AuditEntry(res))
			r.count(c, res)
			r.addHistory(c, res)
			return res
		}
	}}
}

// unrecordable returns an error result if the audit log cannot be written. Then the call must not run. Otherwise
// unrecordable returns nil. Help texts and errors are always returned, because they need no plugin.
func unrecordable(db *state.DB, c *Call) *tool.Result {
	if c.Identity.Answer != nil {
		return nil
	}
	err := db.CheckAudit()
	if err == nil {
		return nil
	}
	return call.Refused(tool.Errorf(tool.Unavailable, "%s was not run, because the audit log cannot be written: %w. Calls run again when it is writable. "+
		"To run calls without a record, set audit { on_failure = \"continue\" } in the operator's configuration.", c.Identity.Tool.FullName(), err))
}

// complete adds information from the host to the result of the call.
func complete(c *Call, res *tool.Result) {
	res.Run.CallID, res.Run.TraceID = c.Request.ID, c.TraceContext().ID()
	if e := c.Identity.Tool; res.Run.Tool == "" && e != nil {
		res.Run.Tool, res.Run.Role = e.FullName(), e.Role()
	}
	if res.Error != nil && res.Error.Source == "" {
		res.Error = res.Error.From(tool.SourceTool)
	}
	if len(c.Decision.Hooks) > 0 {
		call.Annotate(res, "hooks", c.Decision.Hooks)
	}
}

// suggest adds the name of a similar tool to the result of an unknown shell command.
func (r *Records) suggest(c *Call, res *tool.Result) {
	if cmd := c.Identity.Command; cmd.Layer == router.Native && cmd.Simple && res.Error != nil &&
		res.Error.Code == commandNotFound {
		name := cmd.FirstWord()
		call.NoteSimilar(res, name, r.Registry.RoleName(call.Counterpart(name)), r.Registry.AgentNames())
	}
}

// count adds the call to the metrics.
func (r *Records) count(c *Call, res *tool.Result) {
	m := telemetry.Call{Queued: res.Run.QueueTime, Execution: res.Run.ExecutionTime, Attempts: res.Run.Attempts,
		Waited: c.Outcome.Waited, CacheHit: res.Run.CacheHit}
	if res.Error != nil {
		m.Kind = res.Error.Kind
	}
	name, cmd := res.Run.Tool, c.Identity.Command
	if name == "" && !cmd.IsHelp { // do not count unknown names, because their number is unlimited
		if e := r.Registry.Lookup(cmd.Namespace, cmd.Name); e != nil {
			name = e.FullName()
		}
	}
	r.Metrics.Tool(c.MetricsName(name)).Ended(m)
}

// addHistory adds the call to the session's history.
func (r *Records) addHistory(c *Call, res *tool.Result) {
	req := &c.Request
	e := state.Entry{Session: req.Session.ID, At: c.Identity.Started, Command: req.Command, Tool: res.Run.Tool,
		Success: res.Success()}
	if e.Command == "" {
		e.Command, e.Arguments = req.Name, req.Arguments
	}
	r.State.AddHistory(e)
}
