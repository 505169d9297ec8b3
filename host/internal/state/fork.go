package state

import (
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
)

// The method "unsaved" returns the writes that the database possibly does not contain yet.
func (d *DB) unsaved() batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out batch
	d.orphaned.onto(&out)
	d.writing.onto(&out)
	d.pending.onto(&out)
	return out
}

// Fork copies the directory, the file states and the plugins' states of a session to a new session. It does nothing if
// the source session does not exist.
func (d *DB) Fork(from, to string) error {
	unsaved := d.unsaved() // before the queries, because the flusher can write the batch at any time
	s, known, err := d.Session(from)
	if err != nil || !known {
		return err
	}
	files, err := d.fileStates(from)
	if err != nil {
		return err
	}
	states, err := d.pluginStates(from)
	if err != nil {
		return err
	}
	for k, c := range unsaved.files {
		if k.session == from {
			files[k.name] = c
		}
	}
	for k, state := range unsaved.pluginStates {
		if k.session == from {
			states[k.name] = state
		}
	}
	s.ID = to
	d.change(func(b *batch) {
		put(&b.sessions, to, s)
		for path, c := range files {
			put(&b.files, key{to, path}, c)
		}
		for plugin, state := range states {
			put(&b.pluginStates, key{to, plugin}, state)
		}
	})
	return nil
}

func (d *DB) fileStates(session string) (map[string]fileChange, error) {
	rows, err := d.sql.Query(`SELECT path, mtime_ns, size, hash, partial FROM file_states WHERE session = ?`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := make(map[string]fileChange)
	for rows.Next() {
		var f tool.FileState
		var mtime int64
		var hash []byte
		if err := rows.Scan(&f.Path, &mtime, &f.Size, &hash, &f.Partial); err != nil {
			return nil, err
		}
		f.ModTime = time.Unix(0, mtime)
		copy(f.Hash[:], hash)
		out[f.Path] = fileChange{state: f}
	}
	return out, rows.Err()
}

func (d *DB) pluginStates(session string) (map[string][]byte, error) {
	rows, err := d.sql.Query(`SELECT plugin, state FROM plugin_states WHERE session = ?`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := make(map[string][]byte)
	for rows.Next() {
		var plugin string
		var state []byte
		if err := rows.Scan(&plugin, &state); err != nil {
			return nil, err
		}
		out[plugin] = state
	}
	return out, rows.Err()
}

// CountSessions returns the number of sessions whose ids begin with prefix and that were used after the given time.
func (d *DB) CountSessions(prefix string, since time.Time) (int, error) {
	ids := make(map[string]bool)
	for id := range d.unsaved().sessions {
		if strings.HasPrefix(id, prefix) {
			ids[id] = true
		}
	}
	rows, err := d.sql.Query(`SELECT id FROM sessions WHERE substr(id, 1, length(?1)) = ?1 AND used_ns > ?2`, prefix, since.UnixNano())
	if err != nil {
		return 0, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		ids[id] = true
	}
	return len(ids), rows.Err()
}
