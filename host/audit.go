package host

import (
	"encoding/json"
	"math"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// LogEntry is one call in the audit log.
type LogEntry = state.AuditEntry

// LogQuery chooses entries of the audit log; zero values choose all.
type LogQuery = state.AuditQuery

// Log gives entries of the audit log, the oldest first. A call is there a moment after it
// ended.
func (h *Host) Log(q LogQuery) ([]LogEntry, error) { return h.state.AuditLog(q) }

// Log gives entries of the audit log, the oldest first.
func (r *Records) Log(q LogQuery) ([]LogEntry, error) { return r.state.AuditLog(q) }

// auditing has calls kept as the configuration says, and secrets masked in what is kept.
func auditing(cfg *config.Config, db *state.DB) {
	a := cfg.Audit
	m := audit.New(secrets(cfg))
	db.Mask(state.Masking{Command: m.Command, Arguments: m.Arguments}) // also where nothing is audited
	if a.Off {
		db.Audit(nil)
		return
	}
	db.Audit(&state.Auditing{Arguments: m.Arguments, Text: m.Text, MaxBytes: int64(min(a.MaxBytes, math.MaxInt64)), MaxAge: a.MaxAge})
}

// secrets are values that the configuration knows: those that it says are some, and what
// plugins get in variables that are some by their names.
func secrets(cfg *config.Config) []string {
	out := cfg.Audit.Secrets
	for _, p := range cfg.Plugins {
		for name, v := range p.Env {
			if audit.SecretName(name) {
				out = append(out, v)
			}
		}
	}
	return out
}

// auditRefused keeps a request that did not come as far as a session.
func (h *Host) auditRefused(req Request, e *tool.Error) {
	args := req.Arguments
	if req.Name == "" {
		args, _ = json.Marshal(map[string]string{"command": req.Command}) // strings marshal
	}
	h.state.AddAudit(state.AuditEntry{
		At: time.Now(), Session: req.Session, Workspace: req.Workspace, Call: req.ID, Tool: req.Name, Arguments: args, Outcome: string(e.Kind), Error: e.Message,
	})
}
