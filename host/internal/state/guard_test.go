package state_test

import (
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/state"
)

// outside runs an SQL statement on a separate connection, as another program does.
func outside(t *testing.T, dir, statement string) {
	t.Helper()
	raw, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if _, err := raw.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// TestTamperedAuditLogStopsCalls checks that no call runs if the triggers of the audit log were removed or changed.
func TestTamperedAuditLogStopsCalls(t *testing.T) {
	for name, statement := range map[string]string{
		"dropped": `DROP TRIGGER audit_delete`,
		"weaker":  `DROP TRIGGER audit_update; CREATE TRIGGER audit_update BEFORE UPDATE ON audit WHEN 0 BEGIN SELECT 1; END`,
		"added":   `CREATE TRIGGER swallow BEFORE INSERT ON audit BEGIN SELECT RAISE(IGNORE); END`,
		"table":   `DROP TABLE audit`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := audited(t, dir, 1<<20, time.Hour)
			if err := db.CheckAudit(); err != nil {
				t.Fatal(err)
			}
			outside(t, dir, statement) // change the triggers while the first check is still valid
			err := db.CheckAudit()
			if !errors.Is(err, state.ErrAltered) || !strings.Contains(err.Error(), db.Path()) {
				t.Error(err)
			}
			db.AddAudit(state.AuditEntry{At: time.Now(), Call: "kept"})
			if err := db.Flush(); !errors.Is(err, state.ErrAltered) {
				t.Errorf("an entry is written: %v", err)
			}
			db.Audit(&state.Auditing{Entry: unmasked, MaxBytes: 1 << 20, Continue: true})
			if err := db.CheckAudit(); err != nil {
				t.Error(err)
			}
			if err := db.AuditProblem(); !errors.Is(err, state.ErrAltered) {
				t.Error(err)
			}
			db.Audit(nil)
			if err := db.AuditProblem(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplacedDatabaseStopsCalls checks that no call runs after another program replaces the database file. The host
// would write entries to the old file, which nobody can find.
func TestReplacedDatabaseStopsCalls(t *testing.T) {
	dir := t.TempDir()
	db := audited(t, dir, 1<<20, time.Hour)
	if err := os.Rename(db.Path(), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckAudit(); err == nil || !strings.Contains(err.Error(), "the file is gone") {
		t.Error(err)
	}
	if err := os.WriteFile(db.Path(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckAudit(); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Error(err)
	}
	if err := os.Rename(filepath.Join(dir, "away"), db.Path()); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckAudit(); err != nil {
		t.Error(err)
	}
}

// TestBlockedAuditLogRecovers checks that entries wait while the log cannot be written. Later they must be written, and
// calls must run again.
func TestBlockedAuditLogRecovers(t *testing.T) {
	dir := t.TempDir()
	db := audited(t, dir, 1<<20, time.Hour)
	outside(t, dir, `CREATE TRIGGER swallow BEFORE INSERT ON audit BEGIN SELECT RAISE(IGNORE); END`)
	db.AddAudit(state.AuditEntry{At: time.Now(), Call: "waits"})
	if err := db.CheckAudit(); err == nil {
		t.Error("calls run")
	}
	outside(t, dir, `DROP TRIGGER swallow`)
	if err := db.CheckAudit(); err != nil {
		t.Fatal(err)
	}
	flush(t, db)
	if got, err := db.AuditLog(state.AuditQuery{}); err != nil || len(got) != 1 || got[0].Call != "waits" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestFallbackKeepsTheAuditLog checks a host that cannot open its database. No call must run until the database can be
// opened. Then all entries must be written.
func TestFallbackKeepsTheAuditLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file at the path prevents the creation of the directory
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	db, err := state.OpenFallback(func() (*state.DB, error) { return state.Open(dir, log) }, log)
	if err != nil {
		t.Fatal(err)
	}
	auditing := &state.Auditing{Entry: unmasked, MaxBytes: 1 << 20}
	db.Audit(auditing)
	if err := db.CheckAudit(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	db.AddAudit(state.AuditEntry{At: time.Now(), Call: "refused"})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckAudit(); err != nil {
		t.Fatal(err)
	}
	db.AddAudit(state.AuditEntry{At: time.Now(), Call: "ran"})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := audited(t, dir, 1<<20, 0)
	got, err := again.AuditLog(state.AuditQuery{})
	if err != nil || len(got) != 2 || got[0].Call != "refused" || got[1].Call != "ran" {
		t.Errorf("%+v %v", got, err)
	}
}

func BenchmarkCheckAudit(b *testing.B) {
	db, err := state.Open(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.Audit(&state.Auditing{})
	for b.Loop() {
		if err := db.CheckAudit(); err != nil {
			b.Fatal(err)
		}
	}
}
