package library

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"toolhost.dev/sdk/statedb"
)

// schema contains the steps of the schema for package statedb. Never change an existing step. Append new steps.
var schema = []string{`
CREATE TABLE snippets ( -- the last version of each, without the code
	id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
	description TEXT NOT NULL, language TEXT NOT NULL, tags TEXT NOT NULL, created_ns INTEGER NOT NULL, saved_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX snippets_saved ON snippets (saved_ns);
CREATE TABLE versions (
	snippet INTEGER NOT NULL REFERENCES snippets ON DELETE CASCADE, version INTEGER NOT NULL,
	description TEXT NOT NULL, language TEXT NOT NULL, tags TEXT NOT NULL, saved_ns INTEGER NOT NULL, bytes INTEGER NOT NULL, code BLOB NOT NULL,
	PRIMARY KEY (snippet, version)
) STRICT;
CREATE TABLE total (bytes INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (0);
CREATE TRIGGER versions_added AFTER INSERT ON versions BEGIN UPDATE total SET bytes = bytes + new.bytes; END;
CREATE TRIGGER versions_removed AFTER DELETE ON versions BEGIN UPDATE total SET bytes = bytes - old.bytes; END;
-- The words of the last versions. parts has those that camelCase words are made of.
CREATE VIRTUAL TABLE search USING fts5 (name, description, tags, language, code, parts, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER snippets_removed AFTER DELETE ON snippets BEGIN DELETE FROM search WHERE rowid = old.id; END;
`}

// Library contains the snippets of all sessions. It is safe for concurrent use.
type Library struct {
	path   string // empty if the library is in memory
	limits Limits

	mu   sync.Mutex
	db   *sql.DB     // nil before the first use
	file os.FileInfo // metadata of the file that db has open
}

// Open returns the library in a directory. If dir is empty, the library is in memory. The database is opened at the
// first use.
func Open(dir string, limits Limits) *Library {
	l := &Library{limits: limits.orDefault()}
	if dir != "" {
		l.path = filepath.Join(dir, "snippets.db")
	}
	return l
}

// Persistent reports whether the snippets are kept after the end of the process.
func (l *Library) Persistent() bool { return l.path != "" }

// Close closes the database. The next use opens the database again. A library in memory loses all snippets.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

func (l *Library) close() error {
	if l.db == nil {
		return nil
	}
	db := l.db
	l.db = nil
	return db.Close()
}

// transact runs f in a transaction. A read-only transaction does not see changes that others make meanwhile. A
// transaction that is not read-only excludes all other writers, even in other processes.
func (l *Library) transact(ctx context.Context, readOnly bool, f func(*sql.Tx) error) error {
	db, err := l.open(ctx)
	if err != nil {
		return l.failed(err)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: readOnly})
	if err != nil {
		return l.failed(err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := f(tx); err != nil {
		return l.failed(err)
	}
	return l.failed(tx.Commit())
}

func (l *Library) open(ctx context.Context) (*sql.DB, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db != nil {
		if l.path == "" {
			return l.db, nil
		}
		// If another process removed the database file, open a new file. Otherwise snippets would be saved to the
		// removed file and lost.
		if now, err := os.Stat(l.path); err == nil && os.SameFile(now, l.file) {
			return l.db, nil
		}
		if err := l.close(); err != nil {
			return nil, err
		}
	}
	db, err := statedb.Open(ctx, l.path, schema)
	if err != nil {
		return nil, err
	}
	if l.path != "" {
		if l.file, err = os.Stat(l.path); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	l.db = db
	return db, nil
}

// failed adds a remedy to an error of the database.
func (l *Library) failed(err error) error {
	var (
		missing *NotFoundError
		version *NoVersionError
		full    *FullError
		db      *sqlite.Error
	)
	if err == nil || errors.As(err, &missing) || errors.As(err, &version) || errors.As(err, &full) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if l.path == "" {
		return fmt.Errorf("the snippets in memory cannot be used: %w", err)
	}
	do := "Fix this, or start with an empty library: move the file and its companions (-wal, -shm) to another directory"
	if errors.As(err, &db) {
		switch db.Code() & 0xff {
		case sqlite3.SQLITE_BUSY:
			do = "Another process is using the file; try again"
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
			do = "Free some space on the disk, then try again"
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			do = "The file is damaged: restore a backup, or start with an empty library by moving the file and its companions (-wal, -shm) to another directory"
		}
	}
	return fmt.Errorf("the snippets in %s cannot be used: %w. %s", l.path, err, do)
}
