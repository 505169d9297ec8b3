package records

import (
	"database/sql"
	"errors"
	"time"
)

// Rollout records which version of a plugin serves calls, for hosts that start later. It is used for plugins with a
// rollout block.
type Rollout struct {
	// Config is the path of the configuration, and Path is the plugin's program.
	Config, Plugin, Path string
	// Serving is the SHA-256 of the version that serves calls.
	Serving string
	// Tried is the SHA-256 of the version whose rollout began. It is empty if no rollout has begun since the version in
	// Serving began to serve calls.
	Tried string
	// Why is the reason why the rollout of Tried was aborted. It is empty if the rollout did not end.
	Why string
	At  time.Time
}

const rolloutColumns = `config, plugin, path, serving, tried, why, at_ns`

func scanRollout(scan func(...any) error) (r Rollout, err error) {
	var at int64
	err = scan(&r.Config, &r.Plugin, &r.Path, &r.Serving, &r.Tried, &r.Why, &at)
	r.At = time.Unix(0, at)
	return r, err
}

// Rollout returns the record of a plugin. It returns nil if the plugin has no record.
func (l *Log) Rollout(config, plugin string) (*Rollout, error) {
	r, err := scanRollout(l.sql.QueryRow(`SELECT `+rolloutColumns+` FROM rollouts WHERE config = ? AND plugin = ?`, config, plugin).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Rollouts returns the records of all configurations.
func (l *Log) Rollouts() ([]Rollout, error) {
	rows, err := l.sql.Query(`SELECT ` + rolloutColumns + ` FROM rollouts ORDER BY config, plugin`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []Rollout
	for rows.Next() {
		r, err := scanRollout(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// SaveRollout replaces the record of a plugin.
func (l *Log) SaveRollout(r *Rollout) error {
	_, err := l.sql.Exec(`INSERT OR REPLACE INTO rollouts (`+rolloutColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`, r.Config,
		r.Plugin, r.Path, r.Serving, r.Tried, r.Why, time.Now().UnixNano())
	return err
}

// RemoveRollout removes the record of a plugin.
func (l *Log) RemoveRollout(config, plugin string) error {
	_, err := l.sql.Exec(`DELETE FROM rollouts WHERE config = ? AND plugin = ?`, config, plugin)
	return err
}
