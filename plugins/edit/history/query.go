package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Log is a session's history. The versions in a log have no file contents.
type Log struct {
	// Done contains the changes that can be undone. The last change is first. Undone contains the changes that can
	// be redone, in the order of redoing.
	Done, Undone []*Change
	// Dropped is the number of changes that were dropped because of the size or the age limit.
	Dropped int
}

// Log returns a session's history. If path is not empty, it returns only the changes of that file.
func (s *Store) Log(ctx context.Context, session, path string) (*Log, error) {
	l := &Log{}
	err := s.update(ctx, func(tx *transaction) error {
		const which = `WHERE session = ?1 AND state = ?2 AND (?3 = '' OR id IN (SELECT change FROM files WHERE path = ?3))`
		var err error
		if l.Done, err = changes(ctx, tx, which+` ORDER BY place DESC`, session, Done, path); err != nil {
			return err
		}
		if l.Undone, err = changes(ctx, tx, which+` ORDER BY place DESC`, session, Undone, path); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT count FROM dropped WHERE session = ?`, session).Scan(&l.Dropped)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	return l, err
}

// Later returns the last change that any session made to a file after the change with the given id. The result "own"
// reports whether the given session made the returned change. If no later change exists, the result "id" is 0.
func (s *Store) Later(ctx context.Context, session, path string,
	than int64) (id int64, title string, own bool, err error) {
	err = s.update(ctx, func(tx *transaction) error {
		var by string
		err := tx.QueryRowContext(ctx, `SELECT id, title, session FROM changes WHERE place > (SELECT place FROM changes WHERE id = ?) AND state = ? AND id IN (SELECT change FROM files WHERE path = ?) ORDER BY place DESC LIMIT 1`,
			than, Done, path).Scan(&id, &title, &by)
		own = by == session
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	return id, title, own, err
}

// Unfinished returns the unfinished changes that affect at least one of the files.
func (s *Store) Unfinished(ctx context.Context, paths ...string) ([]*Change, error) {
	names, err := json.Marshal(paths)
	if err != nil {
		return nil, err
	}
	db, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	var some bool // almost always false; this fast query runs before each change
	if err := db.statements[anyDoing].QueryRowContext(ctx).Scan(&some); err != nil || !some {
		return nil, s.failed(err)
	}
	var found []*Change
	err = s.update(ctx, func(tx *transaction) error {
		found, err = changes(ctx, tx, `WHERE state = ? AND id IN (SELECT change FROM files WHERE path IN (SELECT value FROM json_each(?))) ORDER BY id`, Doing, string(names))
		return err
	})
	return found, err
}

// Load loads the content of a version.
func (s *Store) Load(ctx context.Context, v *Version) error {
	if !v.Exists || v.Data != nil {
		return nil
	}
	return s.update(ctx, func(tx *transaction) error {
		data, err := s.content(ctx, tx, v.Hash[:])
		if err != nil {
			return fmt.Errorf("the content %x is missing: %w", v.Hash[:6], err)
		}
		if c := Content(data, v.Mode); c.Hash == v.Hash {
			c.Attributes = v.Attributes
			*v = c
			return nil
		}
		return fmt.Errorf("the content %x is damaged", v.Hash[:6])
	})
}

// Cut returns the files of a session's unfinished changes. The process of an unfinished change is still making the
// change, or was killed.
func (s *Store) Cut(ctx context.Context, session string) (paths []string, err error) {
	db, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT DISTINCT path FROM files WHERE change IN (SELECT id FROM changes WHERE state = 0 AND session = ?)`, session)
	if err != nil {
		return nil, s.failed(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports an error
	for rows.Next() {
		var path string
		if err := rows.Scan(&path); err != nil {
			return nil, s.failed(err)
		}
		paths = append(paths, path)
	}
	return paths, s.failed(rows.Err())
}

func changes(ctx context.Context, tx *transaction, where string, args ...any) ([]*Change, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, session, at_ns, tool, title, state, dirs, moves, moves_to FROM changes `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports an error
	var out []*Change
	for rows.Next() {
		c := &Change{}
		var at int64
		var dirs, moves string
		if err := rows.Scan(&c.ID, &c.Session, &at, &c.Tool, &c.Title, &c.State, &dirs, &moves, &c.To); err != nil {
			return nil, err
		}
		c.At = time.Unix(0, at)
		if err := errors.Join(json.Unmarshal([]byte(dirs), &c.Dirs),
			json.Unmarshal([]byte(moves), &c.Moves)); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, c := range out {
		if c.Files, err = files(ctx, tx, c.ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func files(ctx context.Context, tx *transaction, change int64) ([]File, error) {
	rows, err := tx.QueryContext(ctx, `SELECT path, before_hash, before_mode, before_attributes, after_hash, after_mode, after_attributes FROM files WHERE change = ? ORDER BY seq`, change)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports an error
	var out []File
	for rows.Next() {
		var f File
		var before, after []byte
		var beforeMode, afterMode uint32
		var beforeHad, afterHad sql.NullString
		if err := rows.Scan(&f.Path, &before, &beforeMode, &beforeHad, &after, &afterMode, &afterHad); err != nil {
			return nil, err
		}
		f.Before, f.After = version(before, beforeMode), version(after, afterMode)
		if err := errors.Join(f.Before.parseAttributes(beforeHad), f.After.parseAttributes(afterHad)); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, rows.Err()
}

func version(hash []byte, mode uint32) Version {
	if hash == nil {
		return Version{}
	}
	v := Version{Exists: true, Mode: fs.FileMode(mode)}
	copy(v.Hash[:], hash)
	return v
}

// parseAttributes parses the attributes of a version from their text in the database.
func (v *Version) parseAttributes(text sql.NullString) error {
	if !text.Valid || !v.Exists {
		return nil
	}
	return json.Unmarshal([]byte(text.String), &v.Attributes)
}
