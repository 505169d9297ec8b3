package state

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// Auditing configures the audit log.
type Auditing struct {
	// Entry masks the arguments of a call before they are saved. It also returns a function that masks other texts of
	// the call. A single goroutine calls both functions after the call.
	Entry func(raw []byte) (arguments string, text func(string) string)
	// Command masks the command line of a program. Nil means that the function that Entry returns also masks command
	// lines.
	Command func(string) string
	// MaxBytes and MaxAge limit the size of the log and the age of its entries. The newest thousand entries are never
	// deleted.
	MaxBytes int64
	MaxAge   time.Duration
	// Continue permits calls while the log cannot be written.
	Continue bool
}

// AuditEntry records one call in the audit log.
type AuditEntry struct {
	ID int64     `json:"id"`
	At time.Time `json:"time"`
	// Principal is the name of the caller. It is empty in entries of older versions.
	Principal string          `json:"principal,omitempty"`
	Session   string          `json:"session"`
	Workspace string          `json:"workspace"`
	Call      string          `json:"call"`
	Parent    string          `json:"parent,omitempty"` // the id of the parent call
	Tool      string          `json:"tool"`
	Layer     string          `json:"layer"`
	Arguments json.RawMessage `json:"arguments"`
	// Decision is "allow" or "deny". It is empty if the call failed before the policy decided.
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	// Answered is the outcome of a permission request.
	Answered string `json:"answered,omitempty"`
	// Rewritten lists the parameters that a permission rule changed.
	Rewritten []string `json:"rewritten,omitempty"`
	// Hooks lists the actions of hooks, one line per action.
	Hooks    []string      `json:"hooks,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	// Outcome is "success" or the kind of the error.
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	Plugin  string `json:"plugin,omitempty"`
	Version string `json:"version,omitempty"`
	// Trace is the trace id of the call. It is empty if the call was not traced.
	Trace string `json:"trace_id,omitempty"`
	// Programs lists the programs that the call executed. It is nil if the call executed none, or if programs are not
	// recorded.
	Programs *Programs `json:"programs,omitempty"`
}

// Programs lists the programs that a call executed.
type Programs struct {
	// Count is the number of executions, and Denied is the number of denied executions.
	Count  int `json:"count"`
	Denied int `json:"denied,omitempty"`
	// First contains the first different programs. It also contains programs that were denied later.
	First []Program `json:"first"`
	// Omitted is the number of executions that First does not contain. OmittedDenied is the number of denied executions
	// among them.
	Omitted       int `json:"omitted,omitempty"`
	OmittedDenied int `json:"omitted_denied,omitempty"`
}

// Program is a program that a call executed, or tried to execute.
type Program struct {
	Path string `json:"path"`
	// Loads is the program that a dynamic linker loads. It is empty for other programs.
	Loads string `json:"loads,omitempty"`
	// Command is the command line, quoted for a shell. Secrets in the command line are masked before it is saved.
	Command string `json:"command"`
	// Times is the number of executions with the same command line.
	Times    int    `json:"times"`
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	Answered string `json:"answered,omitempty"`
}

// Audit enables the audit log with the given settings. A nil argument disables the log.
func (d *DB) Audit(a *Auditing) {
	if a != nil {
		d.auditing.Store(a)
	}
	d.auditOff.Store(a == nil)
	if db := d.guard.lost.opened(); db != nil {
		db.Audit(a)
	}
}

// maxPendingAudit limits the number of entries that wait while the database cannot be written.
const maxPendingAudit = 20_000

// AddAudit adds a call to the log without blocking. It does nothing if the log is disabled.
func (d *DB) AddAudit(e AuditEntry) {
	if d.auditing.Load() == nil || d.auditOff.Load() {
		return
	}
	if d.guard.lost.add(e) {
		return
	}
	d.changeAudit(func(b *batch) { b.audit = appendWaiting(b.audit, e) })
}

// appendWaiting adds an entry to the waiting entries. If too many entries wait, it drops the entry. In place of the
// first dropped entry, it adds an entry that reports missing calls.
func appendWaiting(waiting []AuditEntry, e AuditEntry) []AuditEntry {
	switch n := len(waiting); {
	case n < maxPendingAudit:
		return append(waiting, e)
	case n == maxPendingAudit:
		return append(waiting, AuditEntry{At: e.At, Outcome: "internal", Error: "later calls are missing because the log could not be written"})
	}
	return waiting
}

// pruneEvery is the number of new entries after which the log is pruned.
const pruneEvery = 500

func (d *DB) writeAudit(w *writer, entries []AuditEntry) {
	if len(entries) == 0 || w.err != nil {
		return
	}
	if w.err = intact(w.tx); w.err != nil {
		return
	}
	auditing := d.auditing.Load()
	total := w.number(d.stmt.auditTotal)
	for _, e := range entries {
		arguments, masked := auditing.Entry(e.Arguments)
		text, hooks, programs := masked(e.Error), hooksText(e.Hooks, masked),
			programsText(e.Programs, auditing.Command, masked)
		total += int64(len(arguments) + len(text) + len(hooks) + len(programs) + entrySize)
		w.exec(d.stmt.addAudit, e.At.UnixNano(), e.Session, e.Workspace, e.Call, e.Parent, e.Tool, e.Layer, arguments,
			e.Decision, e.Rule, e.Answered,
			strings.Join(e.Rewritten, " "), e.Duration.Nanoseconds(), e.Outcome, text, e.Plugin, e.Version, hooks,
			e.Trace, e.Principal, programs, total)
	}
	if d.audited += len(entries); d.audited >= pruneEvery {
		d.audited = 0
		d.prune(w, auditing, total)
	}
}

// hooksText joins the lines about hooks. It calls mask on each line to hide secrets.
func hooksText(hooks []string, mask func(string) string) string {
	if len(hooks) == 0 {
		return ""
	}
	kept := make([]string, len(hooks))
	for i, h := range hooks {
		kept[i] = mask(h)
	}
	b, err := json.Marshal(kept)
	if err != nil { // impossible for strings
		panic(err)
	}
	return string(b)
}

// programsText returns the programs of a call with masked command lines, as JSON.
func programsText(r *Programs, command, mask func(string) string) string {
	if r == nil {
		return ""
	}
	kept := *r
	kept.First = slices.Clone(r.First)
	for i := range kept.First {
		p := &kept.First[i]
		if command != nil {
			p.Command = command(p.Command)
		}
		p.Command, p.Path, p.Loads = mask(p.Command), mask(p.Path), mask(p.Loads)
	}
	b, err := json.Marshal(kept)
	if err != nil { // impossible for strings
		panic(err)
	}
	return string(b)
}

// entrySize is the approximate size of an entry without its arguments and its error, in bytes.
const entrySize = 256

// prune deletes the oldest entries until the log is within its limits. It reads only the deleted entries.
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

// AuditQuery selects entries of the audit log. A zero field selects all entries.
type AuditQuery struct {
	Session, Tool string
	// Principal is the name of the caller.
	Principal string
	// Principals lists the principals, or the blocks of principals, whose entries are selected. Nil selects all.
	Principals []string
	// Outcome is "success" or a kind of error.
	Outcome  string
	Decision string
	// Layer is the layer of the entries, such as "agent". The layer "administration" contains what operators did.
	Layer        string
	Since, Until time.Time
	// Text is a text that the arguments, the error, the rule or the tool contains.
	Text string
	// After selects entries whose id is greater than After.
	After int64
	// Limit is the maximum number of entries. The newest entries are selected. Zero means no limit.
	Limit int
}

// AuditLog returns the selected entries, oldest first.
func (d *DB) AuditLog(q AuditQuery) ([]AuditEntry, error) {
	if db := d.guard.lost.opened(); db != nil {
		return db.AuditLog(q)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = -1
	}
	since, until := nanoseconds(q.Since), int64(math.MaxInt64)
	if !q.Until.IsZero() {
		until = nanoseconds(q.Until)
	}
	visible := ""
	if q.Principals != nil {
		list, err := json.Marshal(q.Principals)
		if err != nil {
			return nil, err
		}
		visible = string(list)
	}
	rows, err := d.sql.Query(`SELECT * FROM (SELECT id, at_ns, session, workspace, call, parent, tool, layer, arguments, decision, rule, answered, rewritten, duration_ns, outcome, error, plugin, version, hooks, trace, principal, programs
		FROM audit WHERE (?1 = '' OR session = ?1) AND (?2 = '' OR tool = ?2) AND (?3 = '' OR outcome = ?3) AND (?4 = '' OR decision = ?4) AND at_ns >= ?5 AND id > ?6 AND (?8 = '' OR principal = ?8) AND at_ns <= ?9 AND (?10 = '' OR layer = ?10)
		AND (?12 = '' OR EXISTS (SELECT 1 FROM json_each(?12) WHERE value = principal OR substr(principal, 1, length(value) + 1) = value || '/'))
		AND (?11 = '' OR instr(arguments, ?11) OR instr(error, ?11) OR instr(rule, ?11) OR instr(tool, ?11))
		ORDER BY id DESC LIMIT ?7) ORDER BY id`, q.Session, q.Tool, q.Outcome, q.Decision, since, q.After, limit, q.Principal, until, q.Layer, q.Text, visible)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := []AuditEntry{}
	for rows.Next() {
		var e AuditEntry
		var at, took int64
		var arguments, rewritten, hooks, programs string
		if err := rows.Scan(&e.ID, &at, &e.Session, &e.Workspace, &e.Call, &e.Parent, &e.Tool, &e.Layer, &arguments,
			&e.Decision, &e.Rule, &e.Answered,
			&rewritten, &took, &e.Outcome, &e.Error, &e.Plugin, &e.Version, &hooks, &e.Trace, &e.Principal,
			&programs); err != nil {
			return nil, err
		}
		if hooks != "" {
			if err := json.Unmarshal([]byte(hooks), &e.Hooks); err != nil {
				return nil, err
			}
		}
		if programs != "" {
			if err := json.Unmarshal([]byte(programs), &e.Programs); err != nil {
				return nil, err
			}
		}
		e.At, e.Duration, e.Arguments, e.Rewritten = time.Unix(0, at), time.Duration(took), json.RawMessage(arguments),
			strings.Fields(rewritten)
		out = append(out, e)
	}
	return out, rows.Err()
}

// nanoseconds returns a time as a number for the database. An int64 can only represent the years from 1678 to 2262.
func nanoseconds(t time.Time) int64 {
	switch {
	case t.Year() > 2261:
		return math.MaxInt64
	case t.Year() > 1970:
		return t.UnixNano()
	}
	return 0
}

// Uses returns the number of calls of each tool among the last entries of the audit log.
func (d *DB) Uses(last int) (_ map[string]int, err error) {
	out := make(map[string]int)
	rows, err := d.sql.Query(`SELECT tool, count(*) FROM (SELECT tool FROM audit ORDER BY id DESC LIMIT ?) WHERE tool <> '' GROUP BY tool`, last)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return out, err
		}
		out[name] = n
	}
	return out, rows.Err()
}
