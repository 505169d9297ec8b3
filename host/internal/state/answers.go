package state

import (
	"database/sql"
	"errors"
	"sync"
	"time"
)

// These are the scopes of an [Answer].
const (
	ScopeSession   = "session"
	ScopeWorkspace = "workspace"
)

// Answer is a remembered answer to a permission request.
type Answer struct {
	ID int64 `json:"id"`
	// Scope is ScopeSession or ScopeWorkspace. Owner is the id of the session or the directory of the workspace.
	Scope string `json:"scope"`
	Owner string `json:"owner"`
	// Kind is the kind of the permission. Subject is the command, path or tool that needs the permission.
	Kind    string    `json:"kind"`
	Tool    string    `json:"tool"`
	Subject string    `json:"subject"`
	Allow   bool      `json:"allow"`
	At      time.Time `json:"at"`
}

// sessionAnswers is how long an answer for a session holds. A session can go on for weeks: that of a workspace, for example,
// never ends.
const sessionAnswers = 24 * time.Hour

// Recall returns the remembered answer for a session and its workspace. An answer for the session holds for a day. If the answers of the session and of the
// workspace differ, a denial takes precedence.
// An answer that is only in memory has the ID 0.
func (d *DB) Recall(session, workspace, kind, tool, subject string) (a Answer, known bool, err error) {
	a = Answer{Kind: kind, Tool: tool, Subject: subject}
	if a.Allow, known = d.private.recall(session, workspace, kind, tool, subject); known {
		return a, true, nil
	}
	var at int64
	err = d.sql.QueryRow(`SELECT id, scope, owner, allow, at_ns FROM answers WHERE (scope = 'session' AND owner = ? AND at_ns > ? OR scope = 'workspace' AND owner = ?)
		AND kind = ? AND tool = ? AND subject = ? ORDER BY allow LIMIT 1`, session, time.Now().Add(-sessionAnswers).UnixNano(), workspace, kind, tool, subject).Scan(&a.ID, &a.Scope, &a.Owner, &a.Allow, &at)
	a.At = time.Unix(0, at)
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// Remember saves an answer. It replaces an earlier answer to the same permission request and ignores a.ID. If the
// subject contains a secret, the answer stays in memory and is not written to the database.
func (d *DB) Remember(a Answer) error {
	if m := d.masking.Load(); m != nil && m.Command(a.Subject) != a.Subject {
		d.private.remember(a)
		return nil
	}
	_, err := d.sql.Exec(`INSERT OR REPLACE INTO answers (scope, owner, kind, tool, subject, allow, at_ns) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.Scope, a.Owner, a.Kind, a.Tool, a.Subject, a.Allow, a.At.UnixNano())
	return err
}

// Answers lists the remembered answers that hold, the oldest first.
func (d *DB) Answers() ([]Answer, error) {
	rows, err := d.sql.Query(`SELECT id, scope, owner, kind, tool, subject, allow, at_ns FROM answers WHERE scope <> 'session' OR at_ns > ? ORDER BY id`, time.Now().Add(-sessionAnswers).UnixNano())
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := []Answer{}
	for rows.Next() {
		var a Answer
		var at int64
		if err := rows.Scan(&a.ID, &a.Scope, &a.Owner, &a.Kind, &a.Tool, &a.Subject, &a.Allow, &at); err != nil {
			return nil, err
		}
		a.At = time.Unix(0, at)
		out = append(out, a)
	}
	return out, rows.Err()
}

// Revoke deletes the answer with the given id, or all answers if id is 0. It returns the number of deleted answers.
func (d *DB) Revoke(id int64) (int64, error) {
	res, err := d.sql.Exec(`DELETE FROM answers WHERE ?1 = 0 OR id = ?1`, id)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// privateAnswers holds answers that must not be written to the database. They are lost when the process ends.
type privateAnswers struct {
	mu   sync.Mutex
	list map[Answer]bool // the value is the answer
}

// maxPrivateAnswers limits the number of answers in memory.
const maxPrivateAnswers = 10_000

func (p *privateAnswers) remember(a Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	allow := a.Allow
	a.ID, a.Allow, a.At = 0, false, time.Time{}
	if len(p.list) < maxPrivateAnswers {
		put(&p.list, a, allow)
	}
}

func (p *privateAnswers) recall(session, workspace, kind, tool, subject string) (allow, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.list[Answer{Scope: ScopeSession, Owner: session, Kind: kind, Tool: tool, Subject: subject}]
	b, ok2 := p.list[Answer{Scope: ScopeWorkspace, Owner: workspace, Kind: kind, Tool: tool, Subject: subject}]
	return (a || !ok) && (b || !ok2), ok || ok2
}
