package records

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Served is a configuration that a host used.
type Served struct {
	ID int64     `json:"id"`
	At time.Time `json:"time"` // when a host began to use it
	// Digest is the SHA-256 of the files, in the form "sha256:…".
	Digest string `json:"digest"`
	// By is the principal that applied the configuration. "(start)" means the start of a host, and "(watcher)" means a
	// change of the files.
	By string `json:"by"`
	// Files contains the text of each file by its path. It is nil in lists.
	Files map[string][]byte `json:"files,omitempty"`
}

// maxServed is the number of configurations that are kept for each path.
const maxServed = 50

// SaveServed records that a host uses a configuration. It records nothing if the last record has the same digest.
func (l *Log) SaveServed(config string, s *Served) error {
	files, err := json.Marshal(s.Files)
	if err != nil { // impossible for bytes
		panic(err)
	}
	var last string
	err = l.sql.QueryRow(`SELECT digest FROM served WHERE config = ? ORDER BY id DESC LIMIT 1`, config).Scan(&last)
	if err == nil && last == s.Digest || err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err = l.sql.Exec(`INSERT INTO served (config, at_ns, digest, principal, files) VALUES (?, ?, ?, ?, ?)`, config, s.At.UnixNano(), s.Digest, s.By, string(files)); err == nil {
		_, err = l.sql.Exec(`DELETE FROM served WHERE config = ?1 AND id <= (SELECT id FROM served WHERE config = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, config, maxServed)
	}
	return err
}

// ServedConfigs returns the configurations that hosts used at a path, newest first, without their files.
func (l *Log) ServedConfigs(config string) ([]Served, error) {
	rows, err := l.sql.Query(`SELECT id, at_ns, digest, principal FROM served WHERE config = ? ORDER BY id DESC`, config)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := []Served{}
	for rows.Next() {
		var s Served
		var at int64
		if err := rows.Scan(&s.ID, &at, &s.Digest, &s.By); err != nil {
			return nil, err
		}
		s.At = time.Unix(0, at)
		out = append(out, s)
	}
	return out, rows.Err()
}

// ServedConfig returns a configuration that a host used, with its files.
func (l *Log) ServedConfig(config string, id int64) (*Served, error) {
	s := &Served{ID: id}
	var at int64
	var files string
	err := l.sql.QueryRow(`SELECT at_ns, digest, principal, files FROM served WHERE config = ? AND id = ?`, config, id).Scan(&at, &s.Digest, &s.By, &files)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("no host used a configuration with the id %d at %s; toolhost config history lists the ids", id, config)
	}
	if err == nil {
		err = json.Unmarshal([]byte(files), &s.Files)
	}
	s.At = time.Unix(0, at)
	return s, err
}
