package call

import (
	"fmt"
	"strings"
	"time"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
)

// Answers returns the remembered answers for the session and the workspace of the call.
func (c *Call) Answers(db *state.DB) policy.Answers {
	return &remembered{
		db: db, session: c.Request.Session.ID,
		workspace: c.Request.Session.Principal.Scope(c.Request.Session.Workspace),
	}
}

type remembered struct {
	db                 *state.DB
	session, workspace string
}

// Recall implements [policy.Answers]. If the database cannot be read, the answer counts as unknown, so that the host
// asks the person again.
func (r *remembered) Recall(kind, tool, subject string) (policy.Remembered, bool) {
	a, known, err := r.db.Recall(r.session, r.workspace, kind, tool, subject)
	return policy.Remembered{Allow: a.Allow, Origin: origin(a)}, known && err == nil
}

// origin names an answer for the audit log and for the person who wants to revoke it.
func origin(a state.Answer) string {
	return fmt.Sprintf("answer %d for the %s %s, %s", a.ID, a.Scope, a.Owner, a.At.Format(time.DateOnly))
}

// answered records how a permission that the running tool asked for was answered, for the audit log.
func (c *Call) answered(how string) {
	if how == "" {
		return
	}
	c.permitsMu.Lock()
	defer c.permitsMu.Unlock()
	if len(c.permits) < maxPermits {
		c.permits = append(c.permits, how)
	}
}

// maxPermits limits the number of answers in an entry of the audit log.
const maxPermits = 10

// Answered returns how the permission requests for the call and of its tool were answered. It returns "" without
// answers.
func (c *Call) Answered() string {
	c.permitsMu.Lock()
	defer c.permitsMu.Unlock()
	all := c.permits
	if p := c.Decision.Policy; p != nil && p.Answered != "" {
		all = append([]string{p.Answered}, all...)
	}
	return strings.Join(all, "; ")
}

// Remember implements [policy.Answers].
func (r *remembered) Remember(kind, tool, subject string, allow, workspace bool) error {
	a := state.Answer{Scope: state.ScopeSession, Owner: r.session, Kind: kind, Tool: tool, Subject: subject,
		Allow: allow, At: time.Now()}
	if workspace {
		a.Scope, a.Owner = state.ScopeWorkspace, r.workspace
	}
	return r.db.Remember(a)
}
