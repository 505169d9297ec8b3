package library

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Save saves code under a name and returns the saved snippet. If the snippet does not change, Save creates no new
// version. If the number of versions exceeds the limit, Save removes the oldest version.
func (l *Library) Save(ctx context.Context, c Change) (*Snippet, Outcome, error) {
	var (
		s       *Snippet
		outcome Outcome
	)
	err := l.transact(ctx, false, func(tx *sql.Tx) error {
		before, err := last(ctx, tx, Ref{Name: c.Name})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		s = c.apply(before)
		switch {
		case before == nil:
			outcome = Created
		case s.same(before):
			outcome, s = Unchanged, before
			return nil
		default:
			outcome = Updated
		}
		return l.write(ctx, tx, s)
	})
	if err != nil {
		return nil, "", err
	}
	return s, outcome, nil
}

// apply returns the new version of a snippet. The argument "before" is the last version, or nil for a new name.
func (c *Change) apply(before *Snippet) *Snippet {
	now := time.Now()
	s := &Snippet{Name: c.Name, Version: 1, Code: c.Code, Bytes: len(c.Code), Tags: c.Tags, Created: now, Saved: now}
	if before != nil {
		s.ID, s.Version, s.Created, s.Description, s.Language = before.ID, before.Version+1, before.Created,
			before.Description, before.Language
		if c.Tags == nil {
			s.Tags = before.Tags
		}
	}
	if c.Description != nil {
		s.Description = *c.Description
	}
	if c.Language != nil {
		s.Language = *c.Language
	}
	if s.Tags == nil {
		s.Tags = []string{}
	}
	return s
}

func (s *Snippet) same(o *Snippet) bool {
	return s.Code == o.Code && s.Description == o.Description && s.Language == o.Language &&
		slices.Equal(s.Tags, o.Tags)
}

func (l *Library) write(ctx context.Context, tx *sql.Tx, s *Snippet) error {
	tags, err := json.Marshal(s.Tags)
	if err != nil {
		return err
	}
	var id any // if id is nil, the database chooses the next ID
	if s.ID != 0 {
		id = s.ID
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO snippets (id, name, version, description, language, tags, created_ns, saved_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, description = excluded.description, language = excluded.language, tags = excluded.tags, saved_ns = excluded.saved_ns RETURNING id`,
		id, s.Name, s.Version, s.Description, s.Language, string(tags), s.Created.UnixNano(),
		s.Saved.UnixNano()).Scan(&s.ID)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, []any{s.ID, s.Version, s.Description, s.Language, string(tags), s.Saved.UnixNano(), s.Bytes, []byte(s.Code)}},
		{`DELETE FROM versions WHERE snippet = ? AND version <= ?`, []any{s.ID, s.Version - l.limits.Versions}},
		{`DELETE FROM search WHERE rowid = ?`, []any{s.ID}},
		{
			`INSERT INTO search (rowid, name, description, tags, language, code, parts) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			[]any{s.ID, s.Name, s.Description, string(tags), s.Language, s.Code, parts(s.Name + " " + s.Code)},
		},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return err
		}
	}
	var names int
	var bytes int64
	if err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM snippets), (SELECT bytes FROM total)`).Scan(&names, &bytes); err != nil {
		return err
	}
	if s.Version == 1 && names > l.limits.Snippets {
		return &FullError{fmt.Sprintf("%d snippets, the maximum", names-1)}
	}
	if bytes > l.limits.Bytes {
		return &FullError{fmt.Sprintf("%d bytes, and the limit for all versions together is %d", bytes-int64(s.Bytes), l.limits.Bytes)}
	}
	return nil
}

// Delete deletes a snippet with all its versions. It returns the last version without its code.
func (l *Library) Delete(ctx context.Context, r Ref) (s *Snippet, versions int, err error) {
	err = l.transact(ctx, false, func(tx *sql.Tx) error {
		if s, err = find(ctx, tx, r); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM versions WHERE snippet = ?`, s.ID).Scan(&versions); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM snippets WHERE id = ?`, s.ID)
		return err
	})
	return s, versions, err
}
