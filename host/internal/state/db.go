// Package state stores sessions and descriptions of plugins. Sessions include file states, history and plugin states.
//
// [Open] opens the SQLite database. Several host processes can share it. [Home] is the layout of the state directory
// around it.
//
// [Locks] enables several host processes to use one session. A lock is a kernel lock of a file, so the kernel releases
// it when its process is killed. The holder removes the file before it unlocks. Several calls of one process share the
// lock of the session.
package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/sdk/statedb"
)

// schema lists the migrations for package statedb. To change the schema, append a migration and never modify an
// existing one.
var schema = []string{`
CREATE TABLE sessions (
	id TEXT PRIMARY KEY, workspace TEXT NOT NULL, cwd TEXT NOT NULL,
	created_ns INTEGER NOT NULL, used_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE file_states (
	session TEXT NOT NULL, path TEXT NOT NULL,
	mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, hash BLOB NOT NULL, partial INTEGER NOT NULL,
	PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE history (
	id INTEGER PRIMARY KEY, session TEXT NOT NULL, at_ns INTEGER NOT NULL,
	command TEXT NOT NULL, tool TEXT NOT NULL, success INTEGER NOT NULL
) STRICT;
CREATE INDEX history_session ON history (session, id);
CREATE TABLE plugin_states (
	session TEXT NOT NULL, plugin TEXT NOT NULL, state BLOB NOT NULL,
	PRIMARY KEY (session, plugin)
) STRICT, WITHOUT ROWID;
CREATE TABLE binaries (
	path TEXT PRIMARY KEY, identity TEXT NOT NULL, hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE descriptions (
	key BLOB PRIMARY KEY, description TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
	key BLOB PRIMARY KEY, why TEXT NOT NULL, at_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`, `
CREATE TABLE answers (
	id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, owner TEXT NOT NULL,
	kind TEXT NOT NULL, tool TEXT NOT NULL, subject TEXT NOT NULL, allow INTEGER NOT NULL, at_ns INTEGER NOT NULL,
	UNIQUE (scope, owner, kind, tool, subject)
) STRICT;
`, `
CREATE TABLE audit (
	id INTEGER PRIMARY KEY AUTOINCREMENT, at_ns INTEGER NOT NULL, session TEXT NOT NULL, workspace TEXT NOT NULL,
	call TEXT NOT NULL, parent TEXT NOT NULL, tool TEXT NOT NULL, layer TEXT NOT NULL, arguments TEXT NOT NULL,
	decision TEXT NOT NULL, rule TEXT NOT NULL, answered TEXT NOT NULL, rewritten TEXT NOT NULL,
	duration_ns INTEGER NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL, plugin TEXT NOT NULL, version TEXT NOT NULL,
	total INTEGER NOT NULL -- bytes of all entries up to this one
) STRICT;
-- What may be deleted: entries up to this one. It only rises, and the newest thousand stay.
CREATE TABLE audit_floor (only INTEGER PRIMARY KEY CHECK (only = 1), id INTEGER NOT NULL) STRICT;
INSERT INTO audit_floor VALUES (1, 0);
CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
	BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit
	BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT id FROM audit_floor)
	BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
CREATE TRIGGER audit_floor_update BEFORE UPDATE ON audit_floor
	WHEN NEW.id < OLD.id OR NEW.id > (SELECT COALESCE(MAX(id), 0) FROM audit) - 1000
	BEGIN SELECT RAISE(ABORT, 'the newest entries of the audit log stay'); END;
CREATE TRIGGER audit_floor_delete BEFORE DELETE ON audit_floor
	BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
`, `
ALTER TABLE audit ADD COLUMN hooks TEXT NOT NULL DEFAULT ''; -- a JSON array; empty: none
`, `
ALTER TABLE audit ADD COLUMN trace TEXT NOT NULL DEFAULT '';
`, `
-- What plugins said of their tools, by the configuration's lock file and the plugin's name.
CREATE TABLE definitions (
	config TEXT NOT NULL, plugin TEXT NOT NULL, approved TEXT NOT NULL, approved_sum BLOB NOT NULL,
	reported_sum BLOB NOT NULL, since_ns INTEGER NOT NULL,
	PRIMARY KEY (config, plugin)
) STRICT, WITHOUT ROWID;
`, `
-- What a host used last, as JSON without secrets, by the configuration's lock file.
CREATE TABLE applied (config TEXT PRIMARY KEY, at_ns INTEGER NOT NULL, content TEXT NOT NULL) STRICT, WITHOUT ROWID;
`, `
-- The last test of whether the audit log can be written.
CREATE TABLE audit_probe (only INTEGER PRIMARY KEY CHECK (only = 1), at_ns INTEGER NOT NULL, filler BLOB NOT NULL) STRICT;
`, `
ALTER TABLE audit ADD COLUMN principal TEXT NOT NULL DEFAULT ''; -- empty: before principals were recorded
`, `
ALTER TABLE audit ADD COLUMN programs TEXT NOT NULL DEFAULT ''; -- a JSON object; empty: none
`, `
-- The number of the last record of each journal that the database contains.
CREATE TABLE journals (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, at_ns INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`, `
-- The stemmed words of searches after which a tool was called, and the searches of the last minutes.
CREATE TABLE tool_words (
	workspace TEXT NOT NULL, principal TEXT NOT NULL, word TEXT NOT NULL, tool TEXT NOT NULL,
	weight REAL NOT NULL, at_ns INTEGER NOT NULL,
	PRIMARY KEY (workspace, principal, word, tool)
) STRICT, WITHOUT ROWID;
CREATE TABLE searches (
	workspace TEXT NOT NULL, principal TEXT NOT NULL, session TEXT NOT NULL, at_ns INTEGER NOT NULL, words TEXT NOT NULL,
	PRIMARY KEY (workspace, principal, session, at_ns)
) STRICT, WITHOUT ROWID;
`, `
-- The files of the configurations that hosts used, as JSON, by the path of the configuration.
CREATE TABLE served (
	id INTEGER PRIMARY KEY AUTOINCREMENT, config TEXT NOT NULL, at_ns INTEGER NOT NULL, digest TEXT NOT NULL,
	principal TEXT NOT NULL, files TEXT NOT NULL
) STRICT;
CREATE INDEX served_config ON served (config, id);
`, `
-- Which version of a plugin with a rollout block serves, by the path of the configuration.
CREATE TABLE rollouts (
	config TEXT NOT NULL, plugin TEXT NOT NULL, path TEXT NOT NULL, serving TEXT NOT NULL, tried TEXT NOT NULL,
	why TEXT NOT NULL, at_ns INTEGER NOT NULL,
	PRIMARY KEY (config, plugin)
) STRICT, WITHOUT ROWID;
`, `
-- The descriptions of plugins, as the protocol encodes them, by the binary and its settings.
DROP TABLE descriptions;
CREATE TABLE kept_descriptions (
	key BLOB PRIMARY KEY, description BLOB NOT NULL, checked_by TEXT NOT NULL, definitions BLOB NOT NULL
) STRICT;
`, `
-- The hashes without the definitions, which would have to be read to reach them.
CREATE INDEX definitions_sums ON definitions (config, plugin, approved_sum, reported_sum, since_ns);
-- When the content of applied was used last, with a digest of what it was made from. Unlike the content, it changes with each
-- start of a host.
CREATE TABLE applied_uses (config TEXT PRIMARY KEY, at_ns INTEGER NOT NULL, digest BLOB NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO applied_uses SELECT config, at_ns, x'' FROM applied;
ALTER TABLE applied DROP COLUMN at_ns;
`, `
DROP TABLE tool_words;
DROP TABLE searches;
`}

// DB is an open database. It is safe for concurrent use. Most writes wait a short time and are then written as a batch.
// Changes of sessions before a [DB.Commit] survive a kill of the host, because the next host reads them from the
// journal.
type DB struct {
	*records.Catalog
	*records.Log
	sql  *sql.DB
	path string
	log  *slog.Logger
	stmt statements

	auditing atomic.Pointer[Auditing] // settings of the last Audit call
	auditOff atomic.Bool
	masking  atomic.Pointer[Masking]
	// retention contains the limits of the last Retain call.
	retention atomic.Pointer[Retention]
	forgot    bool // whether idle sessions were removed; only the flusher uses the field
	audited   int  // number of audit entries since the last pruning; only the flusher uses the field
	guard     guard

	cache cache
	wal   wal

	flush      sync.Mutex // held during a write to the database; locked before mu
	recovering sync.Mutex // held during Recover; locked before the other mutexes

	mu         sync.Mutex
	cond       *sync.Cond // condition of mu; signaled after each write
	pending    batch
	writing    batch             // batch that the flusher is writing; lookups must also search this batch
	unkept     batch             // changes in pending that the journal does not contain
	followed   map[string]*batch // changes of followed sessions; see Follow
	changes    uint64            // number of changes
	kept       uint64            // number of changes that survive a kill of the process
	holding    bool              // whether the running write includes changes that the journal does not contain
	journaling bool              // whether a record is being appended to the journal
	through    bool              // see WriteThrough
	journal    journal
	orphans    []*orphan // adopted journals; see the method "replay"
	orphaned   batch     // changes from the adopted journals; they are older than the changes in the field "pending"

	failures   atomic.Uint64         // number of failed writes of the flusher
	writeError atomic.Pointer[error] // error of the last write, or nil

	signal   chan struct{}
	done     chan struct{}
	stopped  chan struct{}
	closeErr error
	once     sync.Once
}

// statements holds the prepared SQL statements. Those that write are prepared by the first write, because a run of one
// command answers before it.
type statements struct {
	session, fileState, pluginState                        *sql.Stmt
	putSession, dropFile, putFile, dropState, putState     *sql.Stmt
	addHistory, trimHistory, auditTotal, addAudit, changes *sql.Stmt
	putJournal                                             *sql.Stmt

	canWrite bool // whether the statements that write are prepared; protected by DB.flush
}

// journalDir is the directory of journals, beside the database.
const journalDir = "journal"

// flushDelay is the time that a batch waits for further writes.
const flushDelay = 50 * time.Millisecond

// failedDelay is the time before another attempt after a failed write.
const failedDelay = time.Second

// Open opens the database in a directory. It creates a missing directory or database.
func Open(dir string, log *slog.Logger) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the state directory cannot be created: %w", err)
	}
	return open(filepath.Join(dir, "state.db"), log)
}

// OpenInMemory opens a database that exists only in memory.
func OpenInMemory(log *slog.Logger) (*DB, error) { return open("", log) }

func open(path string, log *slog.Logger) (*DB, error) {
	unusable := func(err error) error {
		remedy := "To start with empty state, remove this file"
		if errors.Is(err, unix.EROFS) {
			remedy = "Make the file system writable"
		}
		full := withSpace(err, filepath.Dir(path))
		if full.Error() != err.Error() {
			remedy = "Free space on the disk" // nothing is wrong with the file
		}
		return fmt.Errorf("the state database %s cannot be used: %w. %s, or choose another directory with --state", path, full, remedy)
	}
	db, err := statedb.Open(context.Background(), path, schema)
	if err != nil {
		return nil, unusable(err)
	}
	if path != "" {
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
	}
	d := &DB{Catalog: records.NewCatalog(db), Log: records.NewLog(db), sql: db, path: path, log: log,
		signal: make(chan struct{}, 1), done: make(chan struct{}), stopped: make(chan struct{})}
	d.cond = sync.NewCond(&d.mu)
	d.journal.dir = filepath.Join(filepath.Dir(path), journalDir)
	err = d.prepareReads()
	if err == nil && path != "" {
		d.guard.file, err = os.Stat(path)
	}
	if err != nil {
		return nil, unusable(errors.Join(err, db.Close()))
	}
	if err := d.Recover(); err != nil {
		log.Error("changes of a killed host stay in its journal", "error", err)
	}
	go d.flusher()
	return d, nil
}

// preparation is a statement to prepare.
type preparation struct {
	into  **sql.Stmt
	query string
}

// prepareReads prepares the statements that read.
func (d *DB) prepareReads() error {
	return d.prepare([]preparation{
		{&d.stmt.session, `SELECT workspace, cwd FROM sessions WHERE id = ?`},
		{&d.stmt.fileState, `SELECT mtime_ns, size, hash, partial FROM file_states WHERE session = ? AND path = ?`},
		{&d.stmt.pluginState, `SELECT state FROM plugin_states WHERE session = ? AND plugin = ?`},
	})
}

// prepareWrites prepares the statements that write, unless they are prepared. The caller must hold d.flush.
func (d *DB) prepareWrites() error {
	if d.stmt.canWrite {
		return nil
	}
	err := d.prepare([]preparation{
		{&d.stmt.putSession, `INSERT INTO sessions (id, workspace, cwd, created_ns, used_ns) VALUES (?1, ?2, ?3, ?4, ?4)
			ON CONFLICT (id) DO UPDATE SET workspace = ?2, cwd = ?3, used_ns = ?4`},
		{&d.stmt.dropFile, `DELETE FROM file_states WHERE session = ? AND path = ?`},
		{&d.stmt.putFile, `INSERT OR REPLACE INTO file_states (session, path, mtime_ns, size, hash, partial) VALUES (?, ?, ?, ?, ?, ?)`},
		{&d.stmt.dropState, `DELETE FROM plugin_states WHERE session = ? AND plugin = ?`},
		{&d.stmt.putState, `INSERT OR REPLACE INTO plugin_states (session, plugin, state) VALUES (?, ?, ?)`},
		{&d.stmt.addHistory, `INSERT INTO history (session, at_ns, command, tool, success) VALUES (?, ?, ?, ?, ?)`},
		{&d.stmt.trimHistory, `DELETE FROM history WHERE session = ?1 AND id <= (SELECT id FROM history WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`},
		{&d.stmt.auditTotal, `SELECT COALESCE((SELECT total FROM audit ORDER BY id DESC LIMIT 1), 0)`},
		{&d.stmt.addAudit, `INSERT INTO audit (at_ns, session, workspace, call, parent, tool, layer, arguments, decision, rule, answered, rewritten, duration_ns, outcome, error, plugin, version, hooks, trace, principal, programs, total)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&d.stmt.changes, `PRAGMA data_version`},
		{&d.stmt.putJournal, `INSERT OR REPLACE INTO journals (id, seq, at_ns) VALUES (?, ?, ?)`},
	})
	if err != nil {
		return cmp.Or(intact(d.sql), err) // a table that somebody removed is named as such
	}
	d.stmt.canWrite = true
	return nil
}

func (d *DB) prepare(all []preparation) error {
	for _, p := range all {
		stmt, err := d.sql.Prepare(p.query)
		if err != nil {
			return err
		}
		*p.into = stmt
	}
	return nil
}

// Path returns the path of the database file. It returns "" for a database in memory.
func (d *DB) Path() string { return d.path }

// Close writes the pending batch and closes the database.
func (d *DB) Close() error {
	d.once.Do(func() {
		close(d.done)
		<-d.stopped
		d.closeJournal()
		d.wal.close()
		d.closeErr = errors.Join(d.closeErr, d.sql.Close())
		if db := d.guard.lost.opened(); db != nil {
			d.closeErr = errors.Join(d.closeErr, db.Close())
		}
	})
	return d.closeErr
}
