package state

import "time"

// Began returns the time of the oldest command in a session's history. It is zero if the history is empty.
func (d *DB) Began(session string) time.Time {
	var at int64
	if d.sql.QueryRow(`SELECT at_ns FROM history WHERE session = ? ORDER BY id LIMIT 1`, session).Scan(&at) == nil {
		return time.Unix(0, at)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range []*batch{&d.writing, &d.pending} {
		for _, e := range b.history {
			if e.Session == session {
				return e.At
			}
		}
	}
	return time.Time{}
}
