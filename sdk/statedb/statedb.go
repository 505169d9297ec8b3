// Package statedb opens SQLite databases that several processes share and any of them may
// be killed at: a plugin's in its state directory, the host's.
package statedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)" +
	"&_pragma=journal_size_limit(4194304)&_pragma=temp_store(MEMORY)&_txlock=immediate"

// Open opens the database at path, or one in memory that ends with the process when path is
// empty. A missing file is made with the mode 0600, a missing directory with 0700.
//
// layout are the steps that make the tables, one or several statements each. Those that the
// file has not had yet are applied, all in one transaction; its user_version counts them. So
// a step that was published must never change: append another. A file that has had more
// steps than there are is refused: a later version made it.
//
// Transactions take the write lock when they begin, unless they are read-only, and wait up
// to 5 seconds for it. One that was committed outlives the process; after a power cut the
// last ones may be missing. The database has one connection; a caller that wants to read
// beside writing raises that, but not of one in memory, where each connection would
// have a database of its own. It is safe for concurrent use.
func Open(ctx context.Context, path string, layout []string) (*sql.DB, error) {
	dsn := "file::memory:" + pragmas
	if path != "" {
		if err := makeFile(path); err != nil {
			return nil, err
		}
		dsn = "file:" + (&url.URL{Path: path}).EscapedPath() + pragmas
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, layout); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// makeFile makes the file before SQLite would make it with the umask's mode.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func migrate(ctx context.Context, db *sql.DB, layout []string) error {
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil || version == len(layout) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	// Another process may have been here in the meantime.
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > len(layout) || version < 0 {
		return fmt.Errorf("it was made by a later version (layout %d; this one knows %d)", version, len(layout))
	}
	for _, step := range layout[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, len(layout))); err != nil {
		return err
	}
	return tx.Commit()
}
