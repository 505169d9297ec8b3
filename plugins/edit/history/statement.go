package history

import (
	"context"
	"database/sql"
	"errors"
)

// The SQL statements that record a change. They are prepared once, because compiling them takes longer than running
// them.
const (
	anyDoing     = `SELECT EXISTS (SELECT 1 FROM changes WHERE state = 0)`
	anyUndone    = `SELECT EXISTS (SELECT 1 FROM changes WHERE session = ? AND state = 2)`
	addChange    = `INSERT INTO changes (session, at_ns, tool, title, state, dirs, moves, moves_to) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	addContent   = `INSERT INTO contents (hash, size, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	addFile      = `INSERT INTO files (change, seq, path, before_hash, before_mode, after_hash, after_mode, before_attributes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	totalSize    = `SELECT bytes FROM total`
	setMode      = `UPDATE files SET after_mode = ?1 WHERE change = ?2 AND seq = ?3 AND after_mode <> ?1`
	settleChange = `UPDATE changes SET state = ?, place = ? WHERE id = ?`
)

// database is an open SQLite database with prepared statements.
type database struct {
	*sql.DB
	statements map[string]*sql.Stmt // prepared statements, indexed by SQL text
}

// prepare compiles the SQL statements. It must run before the first transaction, because a transaction occupies the
// only connection.
func prepare(ctx context.Context, db *sql.DB) (*database, error) {
	d := &database{db, make(map[string]*sql.Stmt)}
	for _, text := range []string{anyDoing, anyUndone, addChange, addContent, addFile, totalSize, setMode,
		settleChange} {
		stmt, err := db.PrepareContext(ctx, text)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.statements[text] = stmt
	}
	return d, nil
}

// Close closes the statements and the database.
func (d *database) Close() error {
	var errs []error
	for _, stmt := range d.statements {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, d.DB.Close())...)
}

// transaction is a running transaction of a database.
type transaction struct {
	*sql.Tx
	statements map[string]*sql.Stmt
}

// exec runs one of the prepared statements.
func (tx *transaction) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	return tx.StmtContext(ctx, tx.statements[text]).ExecContext(ctx, args...)
}

// row runs a prepared statement that returns one row.
func (tx *transaction) row(ctx context.Context, text string, args ...any) *sql.Row {
	return tx.StmtContext(ctx, tx.statements[text]).QueryRowContext(ctx, args...)
}
