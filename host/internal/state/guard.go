package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// proofLife is the time for which a successful write counts as proof that the audit log can be written.
const proofLife = time.Second

// checkLife is the time for which a successful check of the proof counts for later calls, too.
const checkLife = 10 * time.Millisecond

// probeSize is the size in bytes of a test write. It is larger than most entries.
const probeSize = 32 << 10

// guard remembers whether the audit log could be written recently.
type guard struct {
	mu    sync.Mutex // locked during a check
	proof atomic.Pointer[proof]
	file  fs.FileInfo // identity of the database file when the host opened it
	// lost holds the audit log if the host could not open its database. Otherwise it is nil.
	lost *lost
}

// leastFree is the minimum free space in bytes. With less space, a successful write does not prove that the next write
// will succeed.
const leastFree = 1 << 20

// proof records the last successful write of an audit entry or a test entry.
type proof struct {
	at      time.Time
	version fileVersion
	checked atomic.Int64 // time of the last successful check after the write, in nanoseconds; zero without such a check
}

// lost holds the audit log of a host that could not open its database. It tries to open the database again.
type lost struct {
	reopen func() (*DB, error)

	mu      sync.Mutex
	db      *DB // nil until a later attempt opens the database
	waiting []AuditEntry
}

// OpenFallback opens a database in memory after the host failed to open the database in the state directory. Audit
// entries are not written to memory: each check of the audit log calls reopen. After reopen succeeds, the entries are
// written to the database that reopen returned.
func OpenFallback(reopen func() (*DB, error), log *slog.Logger) (*DB, error) {
	d, err := OpenInMemory(log)
	if err == nil {
		d.guard.lost = &lost{reopen: reopen}
	}
	return d, err
}

// CheckAudit returns an error if calls must not run because the audit log cannot be written. It returns nil if the log
// is disabled or [Auditing.Continue] is set. A check within a second after a successful write is fast. Any other check
// writes a test entry.
func (d *DB) CheckAudit() error {
	a := d.auditing.Load()
	if a == nil || d.auditOff.Load() || a.Continue {
		return nil
	}
	return d.auditProblem()
}

// AuditProblem returns the reason why the audit log cannot be written. It returns nil if the log is disabled.
func (d *DB) AuditProblem() error {
	if d.auditing.Load() == nil || d.auditOff.Load() {
		return nil
	}
	return d.auditProblem()
}

func (d *DB) auditProblem() error {
	if l := d.guard.lost; l != nil {
		db, err := l.open(d.auditing.Load())
		if err != nil {
			return err
		}
		return db.auditProblem()
	}
	if d.path == "" || d.proved() {
		return nil
	}
	d.guard.mu.Lock()
	defer d.guard.mu.Unlock()
	if d.proved() { // another goroutine successfully checked in the meantime
		return nil
	}
	if err := d.probe(); err != nil {
		return fmt.Errorf("%s: %w", d.path, withSpace(err, d.path))
	}
	return nil
}

// readOnly is the flag of a read-only mount: ST_RDONLY in Linux, MNT_RDONLY in macOS.
const readOnly = 1

// freeSpace returns the free space in bytes on the file system of a path. ok is false if the file system is mounted
// read-only or the space is unknown.
func freeSpace(path string) (free uint64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Flags&readOnly != 0 {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}

// withSpace adds "the disk is full" to an error if the disk is full. In some cases, the error of SQLite is unspecific.
func withSpace(err error, path string) error {
	if free, ok := freeSpace(path); ok && free < leastFree {
		return fmt.Errorf("%w: %d bytes are free on the disk", err, free)
	}
	return err
}

// proved reports whether a recent write proves that the log can be written. If another process changed the
// database after the write, the method also checks the triggers of the log.
func (d *DB) proved() bool {
	p := d.guard.proof.Load()
	if p == nil {
		return false
	}
	age := time.Since(p.at)
	switch checked := time.Duration(p.checked.Load()); {
	case age > proofLife:
		return false
	case checked > 0 && age-checked < checkLife:
		return true
	}
	if free, ok := freeSpace(d.path); !ok || free < leastFree {
		return false
	}
	now := d.version()
	if now == p.version && now != (fileVersion{}) {
		p.checked.Store(int64(age))
		return true
	}
	if intact(d.sql) != nil {
		return false
	}
	d.guard.proof.CompareAndSwap(p, &proof{at: p.at, version: now})
	return true
}

// prove records the result of a write of audit entries.
func (d *DB) prove(err error, version fileVersion) {
	if err != nil {
		d.guard.proof.Store(nil)
		return
	}
	d.guard.proof.Store(&proof{at: time.Now(), version: version})
}

// probe checks that the database file was not replaced, that the triggers are intact, and that a test entry
// can be written. Then it writes the entries that wait because of an earlier failure.
func (d *DB) probe() error {
	d.guard.proof.Store(nil)
	if now, err := os.Stat(d.path); err != nil {
		return fmt.Errorf("the file is gone: %w; restart the host", errors.Unwrap(err))
	} else if !os.SameFile(now, d.guard.file) {
		return errors.New("the file was replaced; restart the host")
	}
	tx, err := d.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := intact(tx); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT OR REPLACE INTO audit_probe (only, at_ns, filler) VALUES (1, ?, zeroblob(?))`, time.Now().UnixNano(), probeSize); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := d.Flush(); err != nil {
		return err
	}
	d.prove(nil, d.version())
	return nil
}

// triggers returns the SQL statements that create the triggers of the audit log.
var triggers = sync.OnceValue(func() []string {
	var out []string
	for _, step := range schema {
		for _, part := range strings.Split(step, "CREATE TRIGGER ")[1:] {
			body, _, _ := strings.Cut(part, "END;")
			out = append(out, "CREATE TRIGGER "+body+"END")
		}
	}
	slices.Sort(out)
	return out
})

// ErrAltered means that somebody changed the protection of the audit log.
var ErrAltered = errors.New("the audit log was tampered with: its triggers were removed or changed, so entries may be missing; keep the file as evidence, move it away, and restart the host")

// intact returns an error if the triggers of the audit log differ from the triggers in the schema.
func intact(db interface {
	Query(query string, args ...any) (*sql.Rows, error)
},
) error {
	rows, err := db.Query(`SELECT sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY sql`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	want := triggers()
	n := 0
	for ; rows.Next(); n++ {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if n >= len(want) || text != want[n] {
			return ErrAltered
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != len(want) {
		return ErrAltered
	}
	return nil
}

// open returns the database, or an error if the database cannot be opened yet. When it opens the database,
// it adds the entries that waited for the database.
func (l *lost) open(a *Auditing) (*DB, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db != nil {
		return l.db, nil
	}
	db, err := l.reopen()
	if err != nil {
		return nil, err
	}
	db.Audit(a)
	for _, e := range l.waiting {
		db.AddAudit(e)
	}
	l.db, l.waiting = db, nil
	return db, nil
}

// opened returns the database. It returns nil if no attempt has opened the database.
func (l *lost) opened() *DB {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.db
}

// add stores an entry until the database can be opened. Later it passes entries to the database. It returns
// false for a nil receiver.
func (l *lost) add(e AuditEntry) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db != nil {
		l.db.AddAudit(e)
	} else {
		l.waiting = appendWaiting(l.waiting, e)
	}
	return true
}
