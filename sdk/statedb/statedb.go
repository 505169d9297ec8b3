// Package statedb implements SQLite databases that several processes share and that survive the
// kill of any of them. [Open] opens one. Plugins keep them in their state directory, the host in
// its own.
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

// Open opens the database at path. If path is empty, it opens one in memory that ends with the
// process. A missing file is created with the mode 0600, a missing directory with 0700.
//
// The layout holds the steps that create the tables, each with one or several statements. Open
// applies those that the file has not had yet, all in one transaction; the file's user_version
// counts them. So a published step must never change: append another one. Open refuses a file that
// has had more steps than layout has, because a later version made it.
//
// Transactions take the write lock when they begin, unless they are read-only, and wait up to 5
// seconds for it. A committed transaction survives the end of the process; a power failure may
// lose the last ones. The database has one connection. A caller that reads and writes concurrently
// raises that number, but not for a database in memory, where each connection would have its own
// database. The database is safe for concurrent use.
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

// makeFile creates the file, because SQLite would create it with the mode of the umask.
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
	// Another process may have applied steps in the meantime.
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > len(layout) || version < 0 {
		return fmt.Errorf("the database was made by a later version: it has layout %d, and the newest supported layout is %d", version, len(layout))
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
