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

// largeContent is the minimum size of a content that is stored in a file instead of the database, in bytes. SQLite
// would write a large content twice, page by page.
const largeContent = 64 << 10

// orphanAge is the minimum age at which a content file without an entry in the database is removed. A younger file can
// belong to a running transaction.
const orphanAge = time.Hour

// contentFile returns the path of the file for a large content.
func (s *Store) contentFile(hash []byte) string {
	return filepath.Join(filepath.Dir(s.path), "contents", hex.EncodeToString(hash))
}

// Stage writes the large contents of a change to temporary files. Begin only renames these files. Therefore the
// transaction of Begin does not wait for the writes. If Begin is never called, the files are removed later. Stage can
// return ErrTooLarge, as described at Begin.
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

// unstage removes the temporary files that Begin did not rename.
func (c *Change) unstage() {
	for _, name := range c.staged {
		_ = os.Remove(name)
	}
	c.staged = nil
}

// large reports whether the content of a version is stored in a file.
func (s *Store) large(v *Version) bool { return s.path != "" && len(v.Data) >= largeContent }

// kept reports whether the content of a version is already stored in a file.
func (s *Store) kept(v *Version) bool {
	st, err := os.Stat(s.contentFile(v.Hash[:]))
	return err == nil && st.Size() == int64(len(v.Data))
}

// keep stores the content of a version. It must be called in a transaction, because two processes must not run it at
// the same time.
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

// keepFile makes sure that the file of a large content exists. It does not sync the file to disk. If a power failure
// loses the content, Load later returns an error.
func (s *Store) keepFile(c *Change, v *Version) error {
	if s.kept(v) {
		return nil
	}
	name, ok := c.staged[v.Hash]
	if !ok { // Stage skipped this content because its file existed at that time
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
	tmp, err := os.CreateTemp(dir, ".new-") // os.CreateTemp creates a file that only the user can read
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

// content reads a content that the method keep has stored.
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

// dropContents removes the contents that are listed in the table "loose" and that no change needs. A change always
// needs the content from before it. It needs the content from after it only while it is in the state "undone";
// otherwise the changed file itself has this content.
func (s *Store) dropContents(ctx context.Context, tx *transaction) error {
	rows, err := tx.QueryContext(ctx, `DELETE FROM contents WHERE hash IN (SELECT hash FROM loose)
		AND NOT EXISTS (SELECT 1 FROM files WHERE before_hash = contents.hash)
		AND NOT EXISTS (SELECT 1 FROM files JOIN changes ON changes.id = files.change WHERE after_hash = contents.hash AND state = 2)
		RETURNING hash, size`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports an error
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

// sweep removes files that contain no content of the database. A killed process can leave such files.
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
			_ = os.Remove(filepath.Join(dir, e.Name())) // ignore the error: another process has removed the file
		}
	}
	return nil
}
