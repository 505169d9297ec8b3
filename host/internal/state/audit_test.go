package state_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/state"
)

func hidden(s string) string { return strings.ReplaceAll(s, "secret", "***") }

// unmasked returns all texts unchanged.
func unmasked(raw []byte) (string, func(string) string) { return string(raw), strings.Clone }

// audited opens a database with the audit log enabled.
func audited(t *testing.T, dir string, maxBytes int64, maxAge time.Duration) *state.DB {
	t.Helper()
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.Audit(&state.Auditing{
		Entry:    func(raw []byte) (string, func(string) string) { return hidden(string(raw)), hidden },
		MaxBytes: maxBytes, MaxAge: maxAge,
	})
	return db
}

func TestAuditLogIsQueried(t *testing.T) {
	dir := t.TempDir()
	db := audited(t, dir, 1<<30, 0)
	began := time.Now().Truncate(time.Microsecond)
	for i := range 10 {
		e := state.AuditEntry{
			At: began.Add(time.Duration(i) * time.Minute), Session: fmt.Sprint("s", i%2), Call: fmt.Sprint("c", i), Tool: "bash", Layer: "native", Arguments: []byte(`{"a":"secret"}`), Decision: "allow", Outcome: "success",
			Duration: time.Duration(i), Rewritten: []string{"a", "b"},
		}
		if i == 4 {
			e.Tool, e.Decision, e.Outcome, e.Error = "read", "deny", "permission_denied", "no secret"
		}
		db.AddAudit(e)
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]state.AuditQuery{
		"c0 c1 c2 c3 c4 c5 c6 c7 c8 c9": {}, "c8 c9": {Limit: 2}, "c1 c3 c5 c7 c9": {Session: "s1"}, "c4": {Tool: "read"}, "c4 ": {Outcome: "permission_denied"}, " c4": {Decision: "deny"}, "c7 c8 c9": {Since: began.Add(7 * time.Minute)}, "c9": {After: 9}, "": {Tool: "nosuch"},
		"c6 c8": {Session: "s0", Since: began.Add(5 * time.Minute), Decision: "allow"},
	} {
		got, err := db.AuditLog(q)
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		for _, e := range got {
			calls = append(calls, e.Call)
		}
		if strings.Join(calls, " ") != strings.TrimSpace(want) {
			t.Errorf("%+v: %v, wanted %s", q, calls, want)
		}
	}
	got, err := db.AuditLog(state.AuditQuery{After: 4, Limit: 1, Tool: "read"})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if e := got[0]; string(e.Arguments) != `{"a":"***"}` || e.Error != "no ***" || !e.At.Equal(began.Add(4*time.Minute)) || e.Duration != 4 || len(e.Rewritten) != 2 || e.Layer != "native" {
		t.Errorf("%+v", e)
	}
	// The triggers of the database must prevent changes of existing entries.
	raw, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	for _, change := range []string{
		`UPDATE audit SET decision = 'allow'`, `DELETE FROM audit`, `DELETE FROM audit WHERE id = 5`, `REPLACE INTO audit SELECT * FROM audit WHERE id = 5`,
		`UPDATE audit_floor SET id = 5`, `UPDATE audit_floor SET id = -1`, `DELETE FROM audit_floor`, `INSERT INTO audit_floor VALUES (2, 100)`,
	} {
		if _, err := raw.Exec(change); err == nil {
			t.Errorf("%s is possible", change)
		}
	}
	if all, err := db.AuditLog(state.AuditQuery{}); err != nil || len(all) != 10 {
		t.Error(len(all), err)
	}
}

// TestUses checks that the uses of tools are counted only in the last calls of the log.
func TestUses(t *testing.T) {
	db := audited(t, t.TempDir(), 1<<30, 0)
	for _, name := range []string{"old", "read", "x:y", "x:y", "", "read", "x:y"} {
		db.AddAudit(state.AuditEntry{At: time.Now(), Tool: name, Arguments: []byte(`{}`), Outcome: "success"})
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Uses(6); fmt.Sprint(got) != "map[read:2 x:y:3]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
