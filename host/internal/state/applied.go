package state

import (
	"database/sql"
	"errors"
	"time"
)

// SaveApplied saves the current settings of a configuration. It replaces the settings that were saved earlier.
func (d *DB) SaveApplied(config string, content []byte) error {
	_, err := d.sql.Exec(`INSERT OR REPLACE INTO applied (config, at_ns, content) VALUES (?, ?, ?)`, config, time.Now().UnixNano(), string(content))
	return err
}

// Applied returns the saved settings of a configuration, with the time when they were saved. It returns nil without
// saved settings.
func (d *DB) Applied(config string) (content []byte, at time.Time, err error) {
	var text string
	var ns int64
	err = d.sql.QueryRow(`SELECT content, at_ns FROM applied WHERE config = ?`, config).Scan(&text, &ns)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, at, nil
	}
	return []byte(text), time.Unix(0, ns), err
}
