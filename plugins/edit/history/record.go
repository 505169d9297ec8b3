package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTooLarge means that the contents of a change exceed the size limit of the history.
var ErrTooLarge = errors.New("history: the change exceeds the size limit of the history")

// MovedError means that another call has already undone or redone a change.
type MovedError struct{ ID int64 }

func (e *MovedError) Error() string {
	return fmt.Sprintf("change %d was undone, redone or deleted by another call", e.ID)
}

// Begin records a change before it is made, and sets its ID. Each file of the change must have Data in its Before
// version. Begin returns a *MovedError if another call has already undone or redone one of the changes that c.Moves
// lists. ErrTooLarge means that the change does not fit even into an empty history.
func (s *Store) Begin(ctx context.Context, c *Change) error {
	if err := s.Stage(c); err != nil {
		return err
	}
	defer c.unstage()
	if c.At.IsZero() {
		c.At = time.Now()
	}
	return s.update(ctx, func(tx *transaction) error {
		from := Done
		if c.To == Done {
			from = Undone
		}
		for _, id := range c.Moves {
			var state State
			err := tx.QueryRowContext(ctx, `SELECT state FROM changes WHERE id = ? AND session = ?`, id, c.Session).Scan(&state)
			if errors.Is(err, sql.ErrNoRows) || err == nil && state != from {
				return &MovedError{id}
			}
			if err != nil {
				return err
			}
		}
		return s.insert(ctx, tx, c)
	})
}

func (s *Store) insert(ctx context.Context, tx *transaction, c *Change) error {
	dirs, err := json.Marshal(c.Dirs)
	if err != nil {
		return err
	}
	moves, err := json.Marshal(c.Moves)
	if err != nil {
		return err
	}
	res, err := tx.exec(ctx, addChange, c.Session, c.At.UnixNano(), c.Tool, c.Title, Doing, string(dirs),
		string(moves), c.To)
	if err != nil {
		return err
	}
	if c.ID, err = res.LastInsertId(); err != nil {
		return err
	}
	for i, f := range c.Files {
		if f.Before.Exists {
			if err := s.keep(ctx, tx, c, &f.Before); err != nil {
				return err
			}
		}
		if _, err := tx.exec(ctx, addFile, c.ID, i, f.Path, f.Before.key(), uint32(f.Before.Mode), f.After.key(),
			uint32(f.After.Mode), f.Before.attributes()); err != nil {
			return err
		}
	}
	return nil
}

// key returns the hash of a version as a database value. The value is NULL if the file does not exist.
func (v Version) key() any {
	if !v.Exists {
		return nil
	}
	return v.Hash[:]
}

// attributes returns the attributes of a version as a database value. The value is NULL if the version has no
// attributes.
func (v Version) attributes() any {
	if v.Attributes == nil {
		return nil
	}
	text, err := json.Marshal(v.Attributes)
	if err != nil {
		panic(err) // encoding numbers, strings and bytes cannot fail
	}
	return string(text)
}

// Finish records that the change was made, and records the new modes of its files. It also updates the changes in
// Moves. A change without Moves discards the undone changes of its files. If the recorded history is too large, Finish
// drops the oldest changes.
func (s *Store) Finish(ctx context.Context, c *Change) error {
	var total int64
	err := s.update(ctx, func(tx *transaction) error {
		if err := s.settle(ctx, tx, c); err != nil {
			return err
		}
		return tx.row(ctx, totalSize).Scan(&total)
	})
	if err == nil && (total > s.limit || s.overdue()) {
		s.trim(ctx, append([]int64{c.ID}, c.Moves...))
	}
	return err
}

// settle runs the SQL statements of Finish.
func (s *Store) settle(ctx context.Context, tx *transaction, c *Change) error {
	if len(c.Moves) == 0 {
		if err := s.forgetUndone(ctx, tx, c); err != nil {
			return err
		}
		for i, f := range c.Files {
			if _, err := tx.exec(ctx, setMode, uint32(f.After.Mode&modeBits), c.ID, i); err != nil {
				return err
			}
		}
		_, err := tx.exec(ctx, settleChange, Done, place(c, 0), c.ID)
		return err
	}
	for i, id := range c.Moves {
		if _, err := tx.exec(ctx, settleChange, c.To, place(c, i), id); err != nil {
			return err
		}
	}
	if err := s.keepAttributes(ctx, tx, c); err != nil {
		return err
	}
	return s.forget(ctx, tx, `SELECT ?`, c.ID)
}

// keepAttributes stores the attributes of files that an undo or redo removes. The reverse operation restores the
// files with these attributes. For a version with a different content, keepAttributes stores only the attributes
// that do not depend on the content.
func (s *Store) keepAttributes(ctx context.Context, tx *transaction, c *Change) error {
	const what = `WHERE path = ? AND change IN (SELECT value FROM json_each(?))`
	set := `UPDATE files SET after_attributes = CASE after_hash WHEN ? THEN ? ELSE ? END ` + what + ` AND after_hash IS NOT NULL`
	if c.To == Done {
		set = `UPDATE files SET before_attributes = CASE before_hash WHEN ? THEN ? ELSE ? END ` + what + ` AND before_hash IS NOT NULL`
	}
	moves, err := json.Marshal(c.Moves)
	if err != nil {
		return err
	}
	for _, f := range c.Files {
		if f.Before.Attributes == nil {
			continue
		}
		other := f.Before
		other.Attributes = other.Attributes.OfOtherContent()
		if _, err := tx.ExecContext(ctx, set, f.Before.key(), f.Before.attributes(), other.attributes(), f.Path,
			string(moves)); err != nil {
			return err
		}
	}
	return nil
}

// forgetUndone removes the undone changes that affect a file of the new change.
func (s *Store) forgetUndone(ctx context.Context, tx *transaction, c *Change) error {
	var some bool // almost always false, so the slow query rarely runs
	if err := tx.row(ctx, anyUndone, c.Session).Scan(&some); err != nil || !some {
		return err
	}
	return s.forget(ctx, tx, `SELECT id FROM changes WHERE session = ? AND state = ? AND id IN
		(SELECT change FROM files WHERE path IN (SELECT path FROM files WHERE change = ?))`, c.Session, Undone, c.ID)
}

// place returns the sort position of the i-th change that c undoes or redoes. Changes are undone in the reverse
// order in which they were made or redone. They are redone in the reverse order in which they were undone.
func place(c *Change, i int) int64 { return c.ID<<20 + int64(i) }

// Abandon records that the change was not made.
func (s *Store) Abandon(ctx context.Context, c *Change) error {
	return s.update(ctx, func(tx *transaction) error { return s.forget(ctx, tx, `SELECT ?`, c.ID) })
}

// Clear removes a session's changes from the history and returns the number of removed changes. If path is not
// empty, it removes only the changes of that file.
func (s *Store) Clear(ctx context.Context, session, path string) (n int, err error) {
	err = s.update(ctx, func(tx *transaction) error {
		const which = `FROM changes WHERE session = ?1 AND state <> ?2 AND (?3 = '' OR id IN (SELECT change FROM files WHERE path = ?3))`
		if err := tx.QueryRowContext(ctx, `SELECT count(*) `+which, session, Doing, path).Scan(&n); err != nil {
			return err
		}
		if path == "" {
			if _, err := tx.ExecContext(ctx, `DELETE FROM dropped WHERE session = ?`, session); err != nil {
				return err
			}
		}
		return s.forget(ctx, tx, `SELECT id `+which, session, Doing, path)
	})
	return n, err
}

// expireEvery is the time between two searches for changes that are older than MaxAge.
const expireEvery = time.Minute

// overdue reports whether the next trim is due because of MaxAge.
func (s *Store) overdue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.MaxAge <= 0 || time.Since(s.expired) < expireEvery {
		return false
	}
	s.expired = time.Now()
	return true
}

// expire drops the changes that are older than MaxAge, except for unfinished ones.
func (s *Store) expire(ctx context.Context, tx *transaction) error {
	if s.MaxAge <= 0 {
		return nil
	}
	before := time.Now().Add(-s.MaxAge).UnixNano()
	if _, err := tx.ExecContext(ctx, `INSERT INTO dropped SELECT session, COUNT(*) FROM changes WHERE at_ns < ? AND state <> ? GROUP BY session
		ON CONFLICT (session) DO UPDATE SET count = count + excluded.count`, before, Doing); err != nil {
		return err
	}
	return s.forget(ctx, tx, `SELECT id FROM changes WHERE at_ns < ? AND state <> ?`, before, Doing)
}

// makeRoom drops the oldest changes of all sessions until the history fits its size limit. It never drops a change
// whose id is in the argument "kept".
func (s *Store) makeRoom(ctx context.Context, tx *transaction, kept []int64) error {
	except, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := s.expire(ctx, tx); err != nil {
		return err
	}
	for {
		var total int64
		if err := tx.row(ctx, totalSize).Scan(&total); err != nil || total <= s.limit {
			return err
		}
		var id int64
		var session string
		err = tx.QueryRowContext(ctx, `SELECT id, session FROM changes WHERE state <> ? AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`,
			Doing, string(except)).Scan(&id, &session)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // only unfinished changes are left, which cannot be dropped
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO dropped VALUES (?, 1) ON CONFLICT (session) DO UPDATE SET count = count + 1`, session); err != nil {
			return err
		}
		if err := s.forget(ctx, tx, `SELECT ?`, id); err != nil {
			return err
		}
	}
}

// forget removes the changes that a query selects. It also removes the contents that only these changes needed.
func (s *Store) forget(ctx context.Context, tx *transaction, which string, args ...any) error {
	for _, step := range []string{
		`CREATE TEMP TABLE IF NOT EXISTS going (id INTEGER PRIMARY KEY)`,
		`CREATE TEMP TABLE IF NOT EXISTS loose (hash BLOB PRIMARY KEY)`,
		`DELETE FROM going`,
		`DELETE FROM loose`,
	} {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO going `+which, args...); err != nil {
		return err
	}
	for _, step := range []string{
		`INSERT OR IGNORE INTO loose SELECT before_hash FROM files WHERE change IN (SELECT id FROM going) AND before_hash IS NOT NULL`,
		`INSERT OR IGNORE INTO loose SELECT after_hash FROM files WHERE change IN (SELECT id FROM going) AND after_hash IS NOT NULL`,
		`DELETE FROM changes WHERE id IN (SELECT id FROM going)`,
	} {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	return s.dropContents(ctx, tx)
}
