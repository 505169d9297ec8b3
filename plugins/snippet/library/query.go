package library

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Load returns one version of a snippet. Version 0 means the last version. The result "kept" contains all kept versions
// without their code, the last version first.
func (l *Library) Load(ctx context.Context, r Ref, version int) (s *Snippet, kept []*Snippet, err error) {
	err = l.transact(ctx, true, func(tx *sql.Tx) error {
		at, err := find(ctx, tx, r)
		if err != nil {
			return err
		}
		if kept, err = versions(ctx, tx, at); err != nil {
			return err
		}
		if version == 0 {
			s = at
			return nil
		}
		for _, v := range kept {
			if v.Version == version {
				s = v
				return tx.QueryRowContext(ctx, `SELECT CAST(code AS TEXT) FROM versions WHERE snippet = ? AND version = ?`, s.ID, version).Scan(&s.Code)
			}
		}
		none := &NoVersionError{Name: at.Name, Version: version, Last: at.Version, First: at.Version}
		if len(kept) > 0 {
			none.First = kept[len(kept)-1].Version
		}
		return none
	})
	if err != nil {
		return nil, nil, err
	}
	return s, kept, nil
}

// List returns the snippets that a filter selects, without their code. The result "total" is the number of snippets
// that the filter would select without its limit and offset.
func (l *Library) List(ctx context.Context, f Filter) (found []*Snippet, total int, err error) {
	tags, err := json.Marshal(append([]string{}, f.Tags...))
	if err != nil {
		return nil, 0, err
	}
	from := `FROM snippets s JOIN versions v ON v.snippet = s.id AND v.version = s.version`
	where := ` WHERE (?1 = '' OR s.language = ?1) AND NOT EXISTS (SELECT 1 FROM json_each(?2) t WHERE t.value NOT IN (SELECT value FROM json_each(s.tags)))`
	order := ` ORDER BY s.saved_ns DESC, s.id DESC`
	args := []any{f.Language, string(tags)}
	if len(f.Words) > 0 {
		args = append(args, match(f.Words))
		from += ` JOIN search ON search.rowid = s.id`
		where += ` AND search MATCH ?3`
		order = ` ORDER BY bm25(search, 10, 4, 6, 2, 1, 0.5), s.saved_ns DESC, s.id DESC`
	}
	err = l.transact(ctx, true, func(tx *sql.Tx) error {
		found = []*Snippet{}
		if err := tx.QueryRowContext(ctx, `SELECT count(*) `+from+where, args...).Scan(&total); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT `+columns+`, '' `+from+where+order+` LIMIT ? OFFSET ?`,
			append(args, f.Limit, f.Offset)...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err returns the error
		for rows.Next() {
			s, err := scan(rows)
			if err != nil {
				return err
			}
			found = append(found, s)
		}
		return rows.Err()
	})
	return found, total, err
}

// Facets returns the sorted tags and languages of all snippets.
func (l *Library) Facets(ctx context.Context) (tags, languages []string, err error) {
	err = l.transact(ctx, true, func(tx *sql.Tx) error {
		if tags, err = texts(ctx, tx, `SELECT DISTINCT t.value FROM snippets s, json_each(s.tags) t ORDER BY 1`); err != nil {
			return err
		}
		languages, err = texts(ctx, tx, `SELECT DISTINCT language FROM snippets WHERE language <> '' ORDER BY 1`)
		return err
	})
	return tags, languages, err
}

const columns = `s.id, s.name, v.version, v.bytes, v.description, v.language, v.tags, s.created_ns, v.saved_ns`

func scan(row interface{ Scan(dest ...any) error }) (*Snippet, error) {
	s := &Snippet{}
	var tags string
	var created, saved int64
	if err := row.Scan(&s.ID, &s.Name, &s.Version, &s.Bytes, &s.Description, &s.Language, &tags, &created, &saved,
		&s.Code); err != nil {
		return nil, err
	}
	s.Created, s.Saved = time.Unix(0, created), time.Unix(0, saved)
	if err := json.Unmarshal([]byte(tags), &s.Tags); err != nil {
		return nil, fmt.Errorf("the tags of %q: %w", s.Name, err)
	}
	return s, nil
}

// last returns the last version of a snippet.
func last(ctx context.Context, tx *sql.Tx, r Ref) (*Snippet, error) {
	const from = `SELECT ` + columns + `, CAST(v.code AS TEXT) FROM snippets s JOIN versions v ON v.snippet = s.id AND v.version = s.version `
	if r.Name != "" {
		return scan(tx.QueryRowContext(ctx, from+`WHERE s.name = ?`, r.Name))
	}
	return scan(tx.QueryRowContext(ctx, from+`WHERE s.id = ?`, r.ID))
}

// find works like last, but returns a *NotFoundError if the snippet does not exist.
func find(ctx context.Context, tx *sql.Tx, r Ref) (*Snippet, error) {
	s, err := last(ctx, tx, r)
	if !errors.Is(err, sql.ErrNoRows) {
		return s, err
	}
	names, err := texts(ctx, tx, `SELECT name FROM snippets ORDER BY saved_ns DESC`)
	if err != nil {
		return nil, err
	}
	return nil, &NotFoundError{Ref: r, Names: names}
}

func versions(ctx context.Context, tx *sql.Tx, s *Snippet) ([]*Snippet, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+columns+`, '' FROM snippets s JOIN versions v ON v.snippet = s.id WHERE s.id = ? ORDER BY v.version DESC`, s.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error
	var out []*Snippet
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func texts(ctx context.Context, tx *sql.Tx, query string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}

// match converts words to a full-text query. Each word also matches longer words with the same beginning.
func match(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, `"`+strings.ReplaceAll(w, `"`, `""`)+`"*`)
	}
	return strings.Join(out, " ")
}
