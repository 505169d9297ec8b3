package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTooLarge means that a change holds more than the history keeps.
var ErrTooLarge = errors.New("history: the change is larger than the history")

// MovedError says that a change which was to be undone or done again is no longer as it was.
type MovedError struct{ ID int64 }

func (e *MovedError) Error() string {
	return fmt.Sprintf("change %d was undone, done again or dropped meanwhile", e.ID)
}

// Begin notes a change that is about to be made, and gives it its ID. Its files' Before
// have their Data. A change that moves others is refused as *MovedError when one of them
// is no longer where it was. ErrTooLarge means that there would not be enough room, even if all others
// went.
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
	res, err := tx.exec(ctx, addChange, c.Session, c.At.UnixNano(), c.Tool, c.Title, Doing, string(dirs), string(moves), c.To)
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
		if _, err := tx.exec(ctx, addFile, c.ID, i, f.Path, f.Before.key(), uint32(f.Before.Mode), f.After.key(), uint32(f.After.Mode), f.Before.attributes()); err != nil {
			return err
		}
	}
	return nil
}

// key is a version's hash; NULL when there is no file.
func (v Version) key() any {
	if !v.Exists {
		return nil
	}
	return v.Hash[:]
}

// attributes are a version's as they are stored; NULL when there are none.
func (v Version) attributes() any {
	if v.Attributes == nil {
		return nil
	}
	text, err := json.Marshal(v.Attributes)
	if err != nil {
		panic(err) // numbers, texts and bytes
	}
	return string(text)
}

// Finish says that the change was made, and which modes its files have now. The changes that it moves are where it takes
// them; one of the session's own makes those on its files that could be done again go. Then the oldest changes
// make room where the history has become too large.
func (s *Store) Finish(ctx context.Context, c *Change) error {
	var total int64
	err := s.update(ctx, func(tx *transaction) error {
		if err := s.settle(ctx, tx, c); err != nil {
			return err
		}
		return tx.row(ctx, totalSize).Scan(&total)
	})
	if err == nil && total > s.limit {
		s.trim(ctx, append([]int64{c.ID}, c.Moves...))
	}
	return err
}

// settle is what Finish does first.
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

// keepAttributes notes those of the files that go by moving others: they come back when those are moved again.
// A version that is not the last one does not get what belongs to that one's content.
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
		if _, err := tx.ExecContext(ctx, set, f.Before.key(), f.Before.attributes(), other.attributes(), f.Path, string(moves)); err != nil {
			return err
		}
	}
	return nil
}

// forgetUndone forgets what could be done again on the files of a new change.
func (s *Store) forgetUndone(ctx context.Context, tx *transaction, c *Change) error {
	var some bool // mostly not, and the rest is much work for nothing
	if err := tx.row(ctx, anyUndone, c.Session).Scan(&some); err != nil || !some {
		return err
	}
	return s.forget(ctx, tx, `SELECT id FROM changes WHERE session = ? AND state = ? AND id IN
		(SELECT change FROM files WHERE path IN (SELECT path FROM files WHERE change = ?))`, c.Session, Undone, c.ID)
}

// place is where the i-th change that c settles stands among the session's: what was done
// last, or done again, is undone first, and the other way round.
func place(c *Change, i int) int64 { return c.ID<<20 + int64(i) }

// Abandon says that the change was not made.
func (s *Store) Abandon(ctx context.Context, c *Change) error {
	return s.update(ctx, func(tx *transaction) error { return s.forget(ctx, tx, `SELECT ?`, c.ID) })
}

// Clear forgets a session's changes, or those that touch a file, and gives their number.
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

// makeRoom drops the oldest changes of any session until the rest fits, but not those that are kept.
func (s *Store) makeRoom(ctx context.Context, tx *transaction, kept []int64) error {
	except, err := json.Marshal(kept)
	if err != nil {
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
			return nil // what is left is under way
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

// forget removes the changes that a query gives, and the contents that nothing needs then.
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
