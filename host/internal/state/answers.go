package state

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
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

// sessionAnswers is how long an answer for a session holds. A session can go on for weeks. The default session of a
// workspace, for example, never ends.
const sessionAnswers = 24 * time.Hour

// Recall returns the remembered answer for a session and its workspace. An answer for the session holds for a day. If
// the answers of the session and of the workspace differ, a denial takes precedence.
func (d *DB) Recall(session, workspace, kind, tool, subject string) (a Answer, known bool, err error) {
	a = Answer{Kind: kind, Tool: tool, Subject: subject}
	var at int64
	err = d.sql.QueryRow(`SELECT id, scope, owner, allow, at_ns FROM answers WHERE (scope = 'session' AND owner = ? AND at_ns > ? OR scope = 'workspace' AND owner = ?)
		AND kind = ? AND tool = ? AND subject = ? ORDER BY allow LIMIT 1`, session, time.Now().Add(-sessionAnswers).UnixNano(), workspace, kind, tool, d.unnamed(subject)).Scan(&a.ID, &a.Scope, &a.Owner, &a.Allow, &at)
	a.At = time.Unix(0, at)
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// Remember saves an answer. It replaces an earlier answer to the same permission request and ignores a.ID. If the
// subject contains a secret, only this process recalls the answer.
func (d *DB) Remember(a Answer) error {
	_, err := d.sql.Exec(`INSERT OR REPLACE INTO answers (scope, owner, kind, tool, subject, allow, at_ns) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.Scope, a.Owner, a.Kind, a.Tool, d.unnamed(a.Subject), a.Allow, a.At.UnixNano())
	return err
}

// answerKey is the key with which this process identifies subjects with secrets.
var answerKey = sync.OnceValue(func() []byte { return []byte(rand.Text()) })

// unnamed returns the subject of an answer without secrets, for the database. A subject with a secret is identified by
// a hash whose key only this process has. An answer is therefore listed and revoked like any other, and no file has the
// secret.
func (d *DB) unnamed(subject string) string {
	m := d.masking.Load()
	if m == nil {
		return subject
	}
	const mark, digits = " #", 32
	masked, at := m.Command(subject), len(subject)-len(mark)-digits
	if masked == subject && (at < 0 || !strings.HasPrefix(subject[at:], mark)) { // a subject cannot be the stored form of another
		return subject
	}
	sum := hmac.New(sha256.New, answerKey())
	sum.Write([]byte(subject))
	return masked + mark + hex.EncodeToString(sum.Sum(nil))[:digits]
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
