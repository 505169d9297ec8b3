// Package records stores what hosts know independently of sessions. Package state embeds both parts of it, so callers
// reach them through an open database.
//
// [Catalog] has the data about programs: hashes of files, and descriptions of plugins. With this data, a host can list
// tools without reading or starting a program. [Log] has the data about configurations: the applied settings, the
// history of files, approved tool definitions, and the version of each plugin that serves calls.
package records

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// Catalog reads and writes the records of programs in a state database. It is safe for concurrent use.
type Catalog struct {
	sql *sql.DB

	mu     sync.Mutex
	hashed map[string]hashed // by path
}

// hashed is the hash of one version of a file.
type hashed struct {
	identity string
	sum      [sha256.Size]byte
}

// NewCatalog returns the records in a database, which must have the tables of package state.
func NewCatalog(db *sql.DB) *Catalog { return &Catalog{sql: db} }

// BinaryHash returns the SHA-256 of a plugin's binary. It computes the hash only once for each version of the file.
// Device, inode, size, modification time and change time identify the version.
func (c *Catalog) BinaryHash(path string) (hash [sha256.Size]byte, err error) {
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
	c.mu.Lock()
	known := c.hashed[path]
	c.mu.Unlock()
	if known.identity == id {
		return known.sum, nil
	}
	if hash, err = c.hash(f, path, id); err != nil {
		return hash, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hashed == nil {
		c.hashed = make(map[string]hashed)
	}
	c.hashed[path] = hashed{id, hash}
	return hash, nil
}

// hash returns the hash of an open file from the database, or computes and saves it.
func (c *Catalog) hash(f *os.File, path, id string) (hash [sha256.Size]byte, err error) {
	var known string
	var sum []byte
	err = c.sql.QueryRow(`SELECT identity, hash FROM binaries WHERE path = ?`, path).Scan(&known, &sum)
	if err == nil && known == id && len(sum) == len(hash) {
		return [sha256.Size]byte(sum), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return hash, err
	}
	hash = [sha256.Size]byte(h.Sum(nil))
	_, err = c.sql.Exec(`INSERT OR REPLACE INTO binaries (path, identity, hash) VALUES (?, ?, ?)`, path, id, hash[:])
	return hash, err
}

// Identity identifies the version of a file without reading its content. It returns "" if the path is not a regular
// file.
func Identity(path string) string {
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

// Kept is the description of a plugin that a host saved.
type Kept struct {
	Description *tool.Description
	// CheckedBy is the version of the host that validated the description. It is empty if the description has a
	// problem.
	CheckedBy string
	// Definitions is the hash of the definitions in the description; see [SumOf].
	Definitions Sum
}

// Description returns the description that was saved under a key, or nil. The key depends on the binary and its
// settings.
func (c *Catalog) Description(key [32]byte) (*Kept, error) {
	all, err := c.Descriptions(key)
	return all[key], err
}

// Descriptions returns the descriptions that were saved under several keys. It takes less time than a call of
// Description for each key.
func (c *Catalog) Descriptions(keys ...[32]byte) (map[[32]byte]*Kept, error) {
	out := make(map[[32]byte]*Kept, len(keys))
	list := make([]string, len(keys))
	for i := range keys {
		list[i] = hex.EncodeToString(keys[i][:])
	}
	text, err := json.Marshal(list)
	if err != nil { // impossible for strings
		panic(err)
	}
	rows, err := c.sql.Query(`SELECT key, description, checked_by, definitions FROM kept_descriptions WHERE key IN (SELECT unhex(value) FROM json_each(?))`, string(text))
	if err != nil {
		return out, err
	}
	return out, scan(rows, out)
}

// scan adds the descriptions in the rows to a map.
func scan(rows *sql.Rows, to map[[32]byte]*Kept) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	var key, text, sum sql.RawBytes
	for rows.Next() {
		k := new(Kept)
		if err := rows.Scan(&key, &text, &k.CheckedBy, &sum); err != nil {
			return err
		}
		if len(key) != 32 || len(sum) != len(k.Definitions) {
			continue
		}
		if k.Description, err = toolrpc.DecodeDescription(text); err != nil {
			continue // another version of the host saved the text, so the plugin must be asked again
		}
		copy(k.Definitions[:], sum)
		to[[32]byte(key)] = k
	}
	return rows.Err()
}

// SaveDescription saves the description of a plugin under a key. checkedBy is the version of the host that validated
// the description. It is empty if the description has a problem.
func (c *Catalog) SaveDescription(key [32]byte, desc *tool.Description, checkedBy string) error {
	text, err := toolrpc.EncodeDescription(desc)
	if err != nil {
		return err
	}
	sum, _, err := SumOf(desc.Defined())
	if err != nil {
		return err
	}
	_, err = c.sql.Exec(`INSERT OR REPLACE INTO kept_descriptions (key, description, checked_by, definitions) VALUES (?, ?, ?, ?)`, key[:], text, checkedBy, sum[:])
	return err
}

// Failure returns the reason and the time of the last failed start of a plugin. An empty why means that no failed start
// was saved.
func (c *Catalog) Failure(key [32]byte) (why string, at time.Time, err error) {
	var ns int64
	err = c.sql.QueryRow(`SELECT why, at_ns FROM failures WHERE key = ?`, key[:]).Scan(&why, &ns)
	if errors.Is(err, sql.ErrNoRows) {
		return "", at, nil
	}
	return why, time.Unix(0, ns), err
}

// SaveFailure saves the reason why a plugin did not start.
func (c *Catalog) SaveFailure(key [32]byte, why string) error {
	_, err := c.sql.Exec(`INSERT OR REPLACE INTO failures (key, why, at_ns) VALUES (?, ?, ?)`, key[:], why, time.Now().UnixNano())
	return err
}
