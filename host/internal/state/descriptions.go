package state

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// BinaryHash returns the SHA-256 of a plugin's binary. It computes the hash only once for each version of the file.
// Device, inode, size, modification time and change time identify the version.
func (d *DB) BinaryHash(path string) (hash [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return hash, err
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	if err != nil {
		return hash, err
	}
	if !st.Mode().IsRegular() {
		return hash, fmt.Errorf("%s is not a regular file", path)
	}
	id := identity(st)
	var known string
	var sum []byte
	err = d.sql.QueryRow(`SELECT identity, hash FROM binaries WHERE path = ?`, path).Scan(&known, &sum)
	if err == nil && known == id && len(sum) == len(hash) {
		return [32]byte(sum), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return hash, err
	}
	hash = [32]byte(h.Sum(nil))
	_, err = d.sql.Exec(`INSERT OR REPLACE INTO binaries (path, identity, hash) VALUES (?, ?, ?)`, path, id, hash[:])
	return hash, err
}

// FileIdentity identifies the version of a file without reading its content. It returns "" if the path is not a regular
// file.
func FileIdentity(path string) string {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return identity(st) + " " + st.Mode().String()
}

func identity(st os.FileInfo) string {
	s := fmt.Sprintf("%d %d", st.Size(), st.ModTime().UnixNano())
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s += fmt.Sprintf(" %d %d %d", sys.Dev, sys.Ino, changeTime(sys))
	}
	return s
}

// Description returns the description that was saved under a key. The key depends on the binary and its settings.
// checkedBy is the version of the host that validated the description. A nil desc means that the database contains no
// description.
func (d *DB) Description(key [32]byte) (desc *tool.Description, checkedBy string, err error) {
	var text string
	err = d.sql.QueryRow(`SELECT description FROM descriptions WHERE key = ?`, key[:]).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var k kept
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return nil, "", nil //nolint:nilerr // written by another version: ask the plugin again
	}
	return k.Description, k.CheckedBy, nil
}

// The type "kept" is the JSON form in which the database contains a description.
type kept struct {
	*tool.Description
	CheckedBy string `json:"checked_by,omitempty"`
}

// SaveDescription saves the description of a plugin under a key. checkedBy is the version of the host that validated the
// description. It is empty if the description has a problem.
func (d *DB) SaveDescription(key [32]byte, desc *tool.Description, checkedBy string) error {
	b, err := json.Marshal(kept{desc, checkedBy})
	if err != nil {
		return err
	}
	_, err = d.sql.Exec(`INSERT OR REPLACE INTO descriptions (key, description) VALUES (?, ?)`, key[:], string(b))
	return err
}

// Failure returns the reason and the time of the last failed start of a plugin. An empty why means that no failed start
// was saved.
func (d *DB) Failure(key [32]byte) (why string, at time.Time, err error) {
	var ns int64
	err = d.sql.QueryRow(`SELECT why, at_ns FROM failures WHERE key = ?`, key[:]).Scan(&why, &ns)
	if errors.Is(err, sql.ErrNoRows) {
		return "", at, nil
	}
	return why, time.Unix(0, ns), err
}

// SaveFailure saves the reason why a plugin did not start.
func (d *DB) SaveFailure(key [32]byte, why string) error {
	_, err := d.sql.Exec(`INSERT OR REPLACE INTO failures (key, why, at_ns) VALUES (?, ?, ?)`, key[:], why, time.Now().UnixNano())
	return err
}
