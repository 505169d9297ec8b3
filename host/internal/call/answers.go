package call

import (
	"time"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
)

// Answers returns the remembered answers for the session and the workspace of the call.
func (c *Call) Answers(db *state.DB) policy.Answers {
	return &remembered{db: db, session: c.Request.Session.ID, workspace: c.Request.Session.Principal.Scope(c.Request.Session.Workspace)}
}

type remembered struct {
	db                 *state.DB
	session, workspace string
}

// Recall implements [policy.Answers]. If the database cannot be read, the answer counts as unknown, so that the host
// asks the person again.
func (r *remembered) Recall(kind, tool, subject string) (allow, known bool) {
	allow, known, err := r.db.Recall(r.session, r.workspace, kind, tool, subject)
	return allow, known && err == nil
}

// Remember implements [policy.Answers].
func (r *remembered) Remember(kind, tool, subject string, allow, workspace bool) error {
	a := state.Answer{Scope: state.ScopeSession, Owner: r.session, Kind: kind, Tool: tool, Subject: subject, Allow: allow, At: time.Now()}
	if workspace {
		a.Scope, a.Owner = state.ScopeWorkspace, r.workspace
	}
	return r.db.Remember(a)
}
