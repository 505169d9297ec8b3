package state

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"
)

// MaxIdle is the time after which unused sessions and settings are deleted if the configuration sets no other time.
// Without a limit, the database would grow forever, because every run of an agent can create a session and a
// configuration.
const MaxIdle = 90 * 24 * time.Hour

// Retention limits how long the database keeps data.
type Retention struct {
	// Sessions is the time after which a session that nobody used is deleted, with everything that belongs to it. Zero
	// means MaxIdle.
	Sessions time.Duration
	// History is the age at which a command of a session is deleted. Zero means that commands are kept as long as the
	// session.
	History time.Duration
}

// Retain sets the limits that apply to later writes.
func (d *DB) Retain(r Retention) { d.retention.Store(&r) }

// Collected contains the numbers of deleted records.
type Collected struct {
	Sessions int64 `json:"sessions"`
	History  int64 `json:"history"`
	Audit    int64 `json:"audit"`
	// Freed is the number of bytes by which the database file shrank.
	Freed int64 `json:"database_bytes"`
}

// Collect immediately deletes the data that exceeds the limits. Hosts can use the database during this operation. If
// the argument "dry" is true, Collect only counts this data. If the argument "compact" is true, Collect also shrinks
// the file, which locks the database for a while.
func (d *DB) Collect(ctx context.Context, dry, compact bool) (out Collected, err error) {
	d.flush.Lock()
	defer d.flush.Unlock()
	tx, err := d.sql.BeginTx(ctx, nil)
	if err != nil {
		return out, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if out, err = forget(tx, d.retention.Load()); err != nil {
		return out, err
	}
	if auditing := d.auditing.Load(); auditing != nil {
		w := writer{tx: tx}
		before, total := w.number2(`SELECT COUNT(*), COALESCE(MAX(total), 0) FROM audit`)
		d.prune(&w, auditing, total)
		after, _ := w.number2(`SELECT COUNT(*), 0 FROM audit`)
		if w.err != nil {
			return out, w.err
		}
		out.Audit = before - after
	}
	if dry {
		return out, nil
	}
	if err := tx.Commit(); err != nil {
		return out, err
	}
	if compact && d.path != "" {
		size := func() (n int64) {
			_ = d.sql.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`).Scan(&n)
			return n
		}
		before := size()
		if _, err := d.sql.ExecContext(ctx, `VACUUM`); err != nil {
			return out, fmt.Errorf("the database cannot be made smaller: %w", err)
		}
		out.Freed = max(0, before-size())
	}
	return out, nil
}

func (w *writer) number2(query string) (a, b int64) {
	if w.err == nil {
		w.err = w.tx.QueryRow(query).Scan(&a, &b)
	}
	return a, b
}

// forget deletes sessions and configurations that were not used for a time, and old commands.
func forget(tx *sql.Tx, r *Retention) (out Collected, err error) {
	if r == nil {
		r = &Retention{}
	}
	deleted := func(query string, args ...any) (n int64) {
		if err == nil {
			var res sql.Result
			if res, err = tx.Exec(query, args...); err == nil {
				n, err = res.RowsAffected()
			}
		}
		return n
	}
	now := time.Now()
	idle := now.Add(-MaxIdle).UnixNano()
	deleted(`DELETE FROM applied WHERE config IN (SELECT config FROM applied_uses WHERE at_ns < ?)`, idle)
	deleted(`DELETE FROM applied_uses WHERE at_ns < ?`, idle)
	deleted(`DELETE FROM journals WHERE at_ns < ?`, idle)
	before := now.Add(-cmp.Or(r.Sessions, MaxIdle)).UnixNano()
	out.Sessions = deleted(`DELETE FROM sessions WHERE used_ns < ?1 AND NOT EXISTS (SELECT 1 FROM history WHERE session = sessions.id AND at_ns >= ?1)`, before)
	if out.Sessions > 0 {
		deleted(`DELETE FROM file_states WHERE session NOT IN (SELECT id FROM sessions)`)
		deleted(`DELETE FROM plugin_states WHERE session NOT IN (SELECT id FROM sessions)`)
		out.History = deleted(`DELETE FROM history WHERE session NOT IN (SELECT id FROM sessions)`)
		deleted(`DELETE FROM answers WHERE scope = 'session' AND owner NOT IN (SELECT id FROM sessions)`)
	}
	if r.History > 0 {
		out.History += deleted(`DELETE FROM history WHERE at_ns < ?`, now.Add(-r.History).UnixNano())
	}
	return out, err
}
