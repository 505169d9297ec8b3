package history

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// largeContent is the size in bytes from which a content is a file beside the database:
// SQLite would write it twice, page by page.
const largeContent = 64 << 10

// orphanAge is how old a file must be that the database does not know, before it is
// removed: a younger one may belong to a transaction that is not through yet.
const orphanAge = time.Hour

// contentFile is where a large content is.
func (s *Store) contentFile(hash []byte) string {
	return filepath.Join(filepath.Dir(s.path), "contents", hex.EncodeToString(hash))
}

// keep stores a content. It is called in a transaction, and so by one process at a time.
func (s *Store) keep(ctx context.Context, tx *sql.Tx, v *Version) error {
	data := v.Data
	if s.path != "" && len(data) >= largeContent {
		if err := s.keepFile(v); err != nil {
			return err
		}
		data = nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO contents (hash, size, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, v.Hash[:], len(v.Data), data)
	return err
}

// keepFile writes the file of a large content. It is not forced to the disk: after a
// power cut the content may be missing, which Load tells.
func (s *Store) keepFile(v *Version) error {
	path := s.contentFile(v.Hash[:])
	if st, err := os.Stat(path); err == nil && st.Size() == int64(len(v.Data)) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-") // private by its mode
	if err != nil {
		return err
	}
	_, err = tmp.Write(v.Data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// content reads what keep stored.
func (s *Store) content(ctx context.Context, tx *sql.Tx, hash []byte) ([]byte, error) {
	var data []byte
	var size int64
	if err := tx.QueryRowContext(ctx, `SELECT size, data FROM contents WHERE hash = ?`, hash).Scan(&size, &data); err != nil {
		return nil, err
	}
	if data != nil || size == 0 || s.path == "" {
		return data, nil
	}
	return os.ReadFile(s.contentFile(hash))
}

// dropContents removes the contents in the table loose that nothing needs. What follows
// a change is kept only while it is undone: it is in the file otherwise.
func (s *Store) dropContents(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `DELETE FROM contents WHERE hash IN (SELECT hash FROM loose)
		AND NOT EXISTS (SELECT 1 FROM files WHERE before_hash = contents.hash)
		AND NOT EXISTS (SELECT 1 FROM files JOIN changes ON changes.id = files.change WHERE after_hash = contents.hash AND state = 2)
		RETURNING hash, size`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var hash []byte
		var size int64
		if err := rows.Scan(&hash, &size); err != nil {
			return err
		}
		if s.path != "" && size >= largeContent {
			if err := os.Remove(s.contentFile(hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return rows.Err()
}

// sweep removes files of contents that the database does not know: of a process that was
// killed in between.
func (s *Store) sweep(ctx context.Context, db *sql.DB) error {
	dir := filepath.Join(filepath.Dir(s.path), "contents")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < orphanAge {
			continue
		}
		known := false
		if hash, err := hex.DecodeString(e.Name()); err == nil {
			if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM contents WHERE hash = ?)`, hash).Scan(&known); err != nil {
				return fmt.Errorf("the files of contents cannot be checked: %w", err)
			}
		}
		if !known {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another process may have been faster
		}
	}
	return nil
}
