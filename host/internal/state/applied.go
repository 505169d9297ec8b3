package state

import (
	"database/sql"
	"errors"
	"time"
)

// SaveApplied saves the applied settings of a configuration. It replaces earlier settings.
func (d *DB) SaveApplied(config string, content []byte) error {
	_, err := d.sql.Exec(`INSERT OR REPLACE INTO applied (config, at_ns, content) VALUES (?, ?, ?)`, config, time.Now().UnixNano(), string(content))
	return err
}

// Applied returns the saved settings of a configuration and the time of saving. It returns nil if no settings are saved.
func (d *DB) Applied(config string) (content []byte, at time.Time, err error) {
	var text string
	var ns int64
	err = d.sql.QueryRow(`SELECT content, at_ns FROM applied WHERE config = ?`, config).Scan(&text, &ns)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, at, nil
	}
	return []byte(text), time.Unix(0, ns), err
}
