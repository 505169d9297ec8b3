// Package statedb opens SQLite databases with [Open]. Several processes can share a database. The database stays
// valid if any of these processes is killed. Plugins and the host store databases in their state directories.
//
// The package is a module of its own, because SQLite needs many modules.
package statedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)" +
	"&_pragma=journal_size_limit(4194304)&_pragma=temp_store(MEMORY)&_txlock=immediate"

// Open opens the database at path. If path is empty, Open creates a database in memory, which ends with the process.
// A missing file is created with the mode 0600, and a missing directory with the mode 0700.
//
// The layout contains the steps that create the tables. Each step consists of one or more statements. Open applies
// all new steps in one transaction. The user_version of the file is the number of applied steps. Therefore a
// published step must never change; append another step instead. If the file has more steps than layout, a later
// version has changed the file, and Open returns an error.
//
// Transactions that are not read-only take the write lock when they begin. They wait up to 5 seconds for the lock. A
// committed transaction survives the end of the process, but a power failure can undo the last transactions. The
// database has one connection. A caller that reads and writes concurrently can raise the number of connections. This
// is impossible for a database in memory, because each connection would have its own database. The database is safe
// for concurrent use.
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
	if err := migrateUnlocked(ctx, db, layout); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// busyTime is the time for which a statement waits for a lock.
const busyTime = 5 * time.Second

// migrateUnlocked repeats [migrate] while another process locks the database. Of two connections that begin to use the
// write-ahead log of a new database, SQLite refuses one at once, without waiting for busyTime.
func migrateUnlocked(ctx context.Context, db *sql.DB, layout []string) error {
	for end := time.Now().Add(busyTime); ; {
		err := migrate(ctx, db, layout)
		if busy, ok := errors.AsType[*sqlite.Error](err); !ok || busy.Code()&0xff != sqlite3.SQLITE_BUSY ||
			time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// makeFile creates the file with mode 0600. SQLite would create it with the mode that the umask allows.
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
	// Read the version again, because another process can have applied steps in the meantime.
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

// Copy writes a copy of the database at path to a new file with the mode 0600. Other processes can use the database
// meanwhile, because the copy contains the content of a single moment. The new file must not exist. Copy returns an
// error if the database does not exist or is damaged.
func Copy(ctx context.Context, path, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already", to)
	}
	db, err := existing(path)
	if err != nil {
		return err
	}
	if err := makeFile(to); err != nil { // VACUUM INTO accepts an empty file, which already has the right mode
		return errors.Join(err, db.Close())
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, to)
	return errors.Join(err, db.Close())
}

// Check returns an error if the database at path is damaged.
func Check(ctx context.Context, path string) error {
	db, err := existing(path)
	if err != nil {
		return err
	}
	var result string
	if err = db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err == nil && result != "ok" {
		err = errors.New(result)
	}
	return errors.Join(err, db.Close())
}

// existing opens a database without creating or migrating it.
func existing(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(5000)&mode=rw")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}
