package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// largeContent is the size in bytes from which a content is stored in a file instead of the database. SQLite would write
// it twice, page by page.
const largeContent = 64 << 10

// orphanAge is the age from which a file unknown to the database is removed. A younger file may belong to a running
// transaction.
const orphanAge = time.Hour

// contentFile returns the path of a large content.
func (s *Store) contentFile(hash []byte) string {
	return filepath.Join(filepath.Dir(s.path), "contents", hex.EncodeToString(hash))
}

// Stage writes the large contents of a change to temporary files, which Begin renames, so that the transaction need not
// wait for the writing. Files of a change that never begins are removed later. ErrTooLarge is as in Begin.
func (s *Store) Stage(c *Change) error {
	var size int64
	for i := range c.Files {
		size += int64(len(c.Files[i].Before.Data))
	}
	if size > s.limit && len(c.Moves) == 0 {
		return ErrTooLarge
	}
	if s.path == "" || c.staged != nil {
		return nil
	}
	c.staged = make(map[[sha256.Size]byte]string)
	for i := range c.Files {
		v := &c.Files[i].Before
		if !s.large(v) || c.staged[v.Hash] != "" || s.kept(v) {
			continue
		}
		name, err := s.stage(v.Data)
		if err != nil {
			c.unstage()
			return s.failed(err)
		}
		c.staged[v.Hash] = name
	}
	return nil
}

// unstage removes the staged files that were not renamed.
func (c *Change) unstage() {
	for _, name := range c.staged {
		_ = os.Remove(name)
	}
	c.staged = nil
}

// large reports whether a content is stored in a file.
func (s *Store) large(v *Version) bool { return s.path != "" && len(v.Data) >= largeContent }

// kept reports whether the file of a content exists.
func (s *Store) kept(v *Version) bool {
	st, err := os.Stat(s.contentFile(v.Hash[:]))
	return err == nil && st.Size() == int64(len(v.Data))
}

// keep stores a content. It is called within a transaction, so by one process at a time.
func (s *Store) keep(ctx context.Context, tx *transaction, c *Change, v *Version) error {
	data := v.Data
	if s.large(v) {
		if err := s.keepFile(c, v); err != nil {
			return err
		}
		data = nil
	}
	_, err := tx.exec(ctx, addContent, v.Hash[:], len(v.Data), data)
	return err
}

// keepFile ensures that the file of a large content exists. It does not sync the file. After a power failure the content
// may be missing; then Load returns an error.
func (s *Store) keepFile(c *Change, v *Version) error {
	if s.kept(v) {
		return nil
	}
	name, ok := c.staged[v.Hash]
	if !ok { // it existed when the others were staged
		var err error
		if name, err = s.stage(v.Data); err != nil {
			return err
		}
		c.staged[v.Hash] = name
	}
	if err := os.Rename(name, s.contentFile(v.Hash[:])); err != nil {
		return err
	}
	delete(c.staged, v.Hash)
	return nil
}

// stage writes a content to a temporary file.
func (s *Store) stage(data []byte) (name string, err error) {
	dir := filepath.Join(filepath.Dir(s.path), "contents")
	tmp, err := os.CreateTemp(dir, ".new-") // os.CreateTemp makes it private
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		tmp, err = os.CreateTemp(dir, ".new-")
	}
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}

// content reads a content that keep stored.
func (s *Store) content(ctx context.Context, tx *transaction, hash []byte) ([]byte, error) {
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

// dropContents removes the contents in the table loose that no change needs. The content after a change is needed only
// while the change is undone; otherwise the file contains it.
func (s *Store) dropContents(ctx context.Context, tx *transaction) error {
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

// sweep removes content files unknown to the database, which a killed process left.
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
				return fmt.Errorf("the content files of the history cannot be checked: %w", err)
			}
		}
		if !known {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another process may have removed it
		}
	}
	return nil
}
