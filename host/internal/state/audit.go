package state

import (
	"encoding/json"
	"math"
	"strings"
	"time"
)

// Auditing says what is kept of calls, and how.
type Auditing struct {
	// Arguments and Text give what is kept of a call's arguments and of other texts. They
	// are called from one goroutine, after the call.
	Arguments func(raw []byte) string
	Text      func(s string) string
	// MaxBytes and MaxAge bound the log; the newest thousand entries stay in any case.
	MaxBytes int64
	MaxAge   time.Duration
}

// AuditEntry is one call in the audit log.
type AuditEntry struct {
	ID        int64           `json:"id"`
	At        time.Time       `json:"time"`
	Session   string          `json:"session"`
	Workspace string          `json:"workspace"`
	Call      string          `json:"call"`
	Parent    string          `json:"parent,omitempty"` // the call whose command made this one
	Tool      string          `json:"tool"`
	Layer     string          `json:"layer"`
	Arguments json.RawMessage `json:"arguments"`
	// Decision is "allow" or "deny"; empty: the call was refused before it was judged.
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	// Answered says how an ask ended.
	Answered string `json:"answered,omitempty"`
	// Rewritten are the parameters that a rule set.
	Rewritten []string `json:"rewritten,omitempty"`
	// Hooks say what hooks did to the call, each in a line.
	Hooks    []string      `json:"hooks,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	// Outcome is "success" or the kind of the error.
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	Plugin  string `json:"plugin,omitempty"`
	Version string `json:"version,omitempty"`
	// Trace is the id of the trace that the call is in; empty: none.
	Trace string `json:"trace_id,omitempty"`
}

// Audit has calls kept from now on; nil: no more.
func (d *DB) Audit(a *Auditing) {
	if a != nil {
		d.auditing.Store(a)
	}
	d.auditOff.Store(a == nil)
}

// maxPendingAudit bounds the entries that wait for a database that cannot be written to.
const maxPendingAudit = 20_000

// AddAudit keeps a call, a moment later. Without [DB.Audit] before it does nothing.
func (d *DB) AddAudit(e AuditEntry) {
	if d.auditing.Load() == nil || d.auditOff.Load() {
		return
	}
	d.change(func(b *batch) {
		if len(b.audit) < maxPendingAudit {
			b.audit = append(b.audit, e)
		} else if len(b.audit) == maxPendingAudit { // the log says that it is not whole
			b.audit = append(b.audit, AuditEntry{At: e.At, Outcome: "internal", Error: "later calls are not in the log: it could not be written to"})
		}
	})
}

// pruneEvery is after how many entries the log is brought within its bounds.
const pruneEvery = 500

func (d *DB) writeAudit(w *writer, entries []AuditEntry) {
	if len(entries) == 0 || w.err != nil {
		return
	}
	auditing := d.auditing.Load()
	total := w.number(d.stmt.auditTotal)
	for _, e := range entries {
		arguments, text := auditing.Arguments(e.Arguments), auditing.Text(e.Error)
		hooks := hooksText(e.Hooks, auditing.Text)
		total += int64(len(arguments) + len(text) + len(hooks) + entrySize)
		w.exec(d.stmt.addAudit, e.At.UnixNano(), e.Session, e.Workspace, e.Call, e.Parent, e.Tool, e.Layer, arguments, e.Decision, e.Rule, e.Answered,
			strings.Join(e.Rewritten, " "), e.Duration.Nanoseconds(), e.Outcome, text, e.Plugin, e.Version, hooks, e.Trace, total)
	}
	if d.audited += len(entries); d.audited >= pruneEvery {
		d.audited = 0
		d.prune(w, auditing, total)
	}
}

// hooksText is what is kept of what hooks did.
func hooksText(hooks []string, text func(string) string) string {
	if len(hooks) == 0 {
		return ""
	}
	kept := make([]string, len(hooks))
	for i, h := range hooks {
		kept[i] = text(h)
	}
	b, err := json.Marshal(kept)
	if err != nil { // strings marshal
		panic(err)
	}
	return string(b)
}

// entrySize is about what an entry takes besides its arguments and its error, in bytes.
const entrySize = 256

// prune raises what may be deleted to what is too old or too much, and deletes it. It
// looks at no more than it deletes.
func (d *DB) prune(w *writer, auditing *Auditing, total int64) {
	oldest := int64(0)
	if auditing.MaxAge > 0 {
		oldest = time.Now().Add(-auditing.MaxAge).UnixNano()
	}
	w.run(`UPDATE audit_floor SET id = MAX(id, MIN((SELECT MAX(id) FROM audit) - 1000, MAX(
		COALESCE((SELECT id FROM audit WHERE at_ns >= ?1 ORDER BY id LIMIT 1), (SELECT MAX(id) FROM audit)) - 1,
		COALESCE((SELECT id FROM audit WHERE total > ?2 ORDER BY id LIMIT 1), (SELECT MAX(id) FROM audit)) - 1
	))) WHERE (SELECT MAX(id) FROM audit) > 1000`, oldest, total-auditing.MaxBytes)
	w.run(`DELETE FROM audit WHERE id <= (SELECT id FROM audit_floor)`)
}

// AuditQuery chooses entries; zero values choose all.
type AuditQuery struct {
	Session, Tool string
	// Outcome is "success" or a kind of error.
	Outcome  string
	Decision string
	Since    time.Time
	// After an id.
	After int64
	// Limit to the newest; 0: all.
	Limit int
}

// AuditLog gives entries, the oldest first.
func (d *DB) AuditLog(q AuditQuery) ([]AuditEntry, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = -1
	}
	since := int64(0)
	switch { // what nanoseconds can count
	case q.Since.Year() > 2261:
		since = math.MaxInt64
	case q.Since.Year() > 1970:
		since = q.Since.UnixNano()
	}
	rows, err := d.sql.Query(`SELECT * FROM (SELECT id, at_ns, session, workspace, call, parent, tool, layer, arguments, decision, rule, answered, rewritten, duration_ns, outcome, error, plugin, version, hooks, trace
		FROM audit WHERE (?1 = '' OR session = ?1) AND (?2 = '' OR tool = ?2) AND (?3 = '' OR outcome = ?3) AND (?4 = '' OR decision = ?4) AND at_ns >= ?5 AND id > ?6
		ORDER BY id DESC LIMIT ?7) ORDER BY id`, q.Session, q.Tool, q.Outcome, q.Decision, since, q.After, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := []AuditEntry{}
	for rows.Next() {
		var e AuditEntry
		var at, took int64
		var arguments, rewritten, hooks string
		if err := rows.Scan(&e.ID, &at, &e.Session, &e.Workspace, &e.Call, &e.Parent, &e.Tool, &e.Layer, &arguments, &e.Decision, &e.Rule, &e.Answered,
			&rewritten, &took, &e.Outcome, &e.Error, &e.Plugin, &e.Version, &hooks, &e.Trace); err != nil {
			return nil, err
		}
		if hooks != "" {
			if err := json.Unmarshal([]byte(hooks), &e.Hooks); err != nil {
				return nil, err
			}
		}
		e.At, e.Duration, e.Arguments, e.Rewritten = time.Unix(0, at), time.Duration(took), json.RawMessage(arguments), strings.Fields(rewritten)
		out = append(out, e)
	}
	return out, rows.Err()
}
