package records

import (
	"database/sql"
	"errors"
	"time"
)

// SaveApplied saves the current settings of a configuration. It replaces the settings that were saved earlier. The
// digest identifies the data from which the content is made. If the saved settings have the same digest, SaveApplied
// only updates their time and does not call content. An empty digest never equals a saved one.
func (l *Log) SaveApplied(config string, digest []byte, content func() ([]byte, error)) error {
	now := time.Now().UnixNano()
	if len(digest) > 0 {
		res, err := l.sql.Exec(`UPDATE applied_uses SET at_ns = ? WHERE config = ? AND digest = ?`, now, config, digest)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n > 0 || err != nil {
			return err
		}
	}
	text, err := content()
	if err != nil {
		return err
	}
	tx, err := l.sql.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit, it does nothing
	if _, err := tx.Exec(`INSERT OR REPLACE INTO applied (config, content) VALUES (?, ?)`, config, string(text)); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT OR REPLACE INTO applied_uses (config, at_ns, digest) VALUES (?, ?, ?)`, config, now, append([]byte{}, digest...)); err != nil {
		return err
	}
	return tx.Commit()
}

// Applied returns the saved settings of a configuration, with the time when they were saved. The content is nil if no
// settings are saved.
func (l *Log) Applied(config string) (content []byte, at time.Time, err error) {
	var text string
	var ns int64
	err = l.sql.QueryRow(`SELECT content, at_ns FROM applied JOIN applied_uses USING (config) WHERE config = ?`, config).Scan(&text, &ns)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, at, nil
	}
	return []byte(text), time.Unix(0, ns), err
}
