package history

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"toolhost.dev/sdk/statedb"
)

// schema contains the schema steps for package statedb. Existing steps must never change. New steps must be
// appended.
var schema = []string{`
CREATE TABLE changes (
	id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, at_ns INTEGER NOT NULL,
	tool TEXT NOT NULL, title TEXT NOT NULL, state INTEGER NOT NULL, dirs TEXT NOT NULL,
	moves TEXT NOT NULL, moves_to INTEGER NOT NULL, place INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX changes_session ON changes (session, state, place);
CREATE INDEX changes_doing ON changes (id) WHERE state = 0;
CREATE TABLE files (
	change INTEGER NOT NULL REFERENCES changes ON DELETE CASCADE, seq INTEGER NOT NULL, path TEXT NOT NULL,
	before_hash BLOB, before_mode INTEGER NOT NULL, after_hash BLOB, after_mode INTEGER NOT NULL,
	PRIMARY KEY (change, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX files_path ON files (path);
CREATE INDEX files_before ON files (before_hash);
CREATE INDEX files_after ON files (after_hash);
CREATE TABLE contents (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB) STRICT; -- no data: it is a file
CREATE TABLE total (bytes INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (0);
CREATE TRIGGER contents_added AFTER INSERT ON contents BEGIN UPDATE total SET bytes = bytes + new.size; END;
CREATE TRIGGER contents_removed AFTER DELETE ON contents BEGIN UPDATE total SET bytes = bytes - old.size; END;
-- What a change takes beside its contents, roughly.
CREATE TRIGGER files_added AFTER INSERT ON files BEGIN UPDATE total SET bytes = bytes + 300 + length(new.path); END;
CREATE TRIGGER files_removed AFTER DELETE ON files BEGIN UPDATE total SET bytes = bytes - 300 - length(old.path); END;
CREATE TABLE dropped (session TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`, `
-- What a file that goes had beside content and mode, as JSON.
ALTER TABLE files ADD COLUMN before_attributes TEXT;
ALTER TABLE files ADD COLUMN after_attributes TEXT;
CREATE TRIGGER attributes_added AFTER INSERT ON files WHEN new.before_attributes IS NOT NULL
	BEGIN UPDATE total SET bytes = bytes + length(new.before_attributes); END;
CREATE TRIGGER attributes_changed AFTER UPDATE OF before_attributes, after_attributes ON files BEGIN UPDATE total SET bytes = bytes
	+ ifnull(length(new.before_attributes), 0) + ifnull(length(new.after_attributes), 0)
	- ifnull(length(old.before_attributes), 0) - ifnull(length(old.after_attributes), 0); END;
CREATE TRIGGER attributes_removed AFTER DELETE ON files WHEN old.before_attributes IS NOT NULL OR old.after_attributes IS NOT NULL
	BEGIN UPDATE total SET bytes = bytes - ifnull(length(old.before_attributes), 0) - ifnull(length(old.after_attributes), 0); END;
`}

// Store stores the histories of all sessions. It is safe for concurrent use.
type Store struct {
	// MaxAge is the age at which a change is dropped. Zero means that only the size limits the history. Set it before
	// the first use.
	MaxAge time.Duration

	path  string // path of the database; empty for a store in memory
	limit int64

	mu       sync.Mutex
	db       *database     // nil until the first use
	trimming chan struct{} // closed when the last call of trim ends; nil before the first call
	expired  time.Time     // the last time when old changes were dropped
}

// Open returns the store in a directory. An empty dir means a store in memory. The limit is the maximum size in
// bytes; 0 means DefaultLimit. The database is opened on first use.
func Open(dir string, limit int64) *Store {
	s := &Store{limit: limit}
	if limit <= 0 {
		s.limit = DefaultLimit
	}
	if dir != "" {
		s.path = filepath.Join(dir, "history.db")
	}
	return s
}

// Limit returns the size limit in bytes.
func (s *Store) Limit() int64 { return s.limit }

// Close closes the database.
func (s *Store) Close() error {
	_ = s.trimmed(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return db.Close()
}

// update runs f in a transaction. The transaction excludes writers of this process and of other processes.
func (s *Store) update(ctx context.Context, f func(*transaction) error) error {
	db, err := s.open(ctx)
	if err != nil {
		return err
	}
	return s.transact(ctx, db, f)
}

func (s *Store) transact(ctx context.Context, db *database, f func(*transaction) error) error {
	begun, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(err)
	}
	tx := &transaction{begun, db.statements}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := f(tx); err != nil {
		return s.failed(err)
	}
	return s.failed(tx.Commit())
}

// trim drops the oldest changes in the background, but never a change whose id is in the argument "kept". The caller
// does not wait. Later operations on the history wait until trim ends.
func (s *Store) trim(ctx context.Context, kept []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	db, before, done := s.db, s.trimming, make(chan struct{})
	if db == nil { // the store was closed before the trim started
		return
	}
	s.trimming = done
	after := context.WithoutCancel(ctx)
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		// Ignore the error, because the next change trims the history again.
		_ = s.transact(after, db, func(tx *transaction) error { return s.makeRoom(after, tx, kept) })
	}()
}

// trimmed waits until a running call of trim ends.
func (s *Store) trimmed(ctx context.Context) error {
	s.mu.Lock()
	trimming := s.trimming
	s.mu.Unlock()
	if trimming == nil {
		return nil
	}
	select {
	case <-trimming:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) open(ctx context.Context) (*database, error) {
	if err := s.trimmed(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	db, err := statedb.Open(ctx, s.path, schema)
	if err != nil {
		return nil, s.failed(err)
	}
	if s.path != "" {
		if err := s.sweep(ctx, db); err != nil {
			return nil, s.failed(errors.Join(err, db.Close()))
		}
	}
	prepared, err := prepare(ctx, db)
	if err != nil {
		return nil, s.failed(err)
	}
	if s.MaxAge > 0 {
		s.expired = time.Now()
		if err := s.transact(ctx, prepared, func(tx *transaction) error { return s.expire(ctx, tx) }); err != nil {
			return nil, errors.Join(err, prepared.Close())
		}
	}
	s.db = prepared
	return s.db, nil
}

// failed returns the database error with a remedy.
func (s *Store) failed(err error) error {
	var moved *MovedError
	if err == nil || errors.As(err, &moved) || errors.Is(err, ErrTooLarge) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if s.path == "" {
		return fmt.Errorf("the history of changes cannot be used: %w", err)
	}
	return fmt.Errorf("the history of changes %s cannot be used: %w. To start with an empty history, remove this file", s.path, err)
}
