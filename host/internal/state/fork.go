package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
)

// unsaved returns the writes that the database possibly does not contain yet.
func (d *DB) unsaved() batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out batch
	d.orphaned.addTo(&out)
	d.writing.addTo(&out)
	d.pending.addTo(&out)
	return out
}

// Snapshot is the state of a session.
type Snapshot struct {
	Session
	// Files contains the states of the files that the session knows.
	Files []tool.FileState
	// Plugins maps the names of plugins to the states that they stored in the session.
	Plugins map[string][]byte
}

// Snapshot returns the state of a session. The result "ok" is false if the session does not exist.
func (d *DB) Snapshot(session string) (out Snapshot, ok bool, err error) {
	unsaved := d.unsaved() // before the queries, because the flusher can write the batch at any time
	if out.Session, ok, err = d.Session(session); err != nil || !ok {
		return out, false, err
	}
	files, err := d.fileStates(session)
	if err != nil {
		return out, false, err
	}
	if out.Plugins, err = d.pluginStates(session); err != nil {
		return out, false, err
	}
	for k, c := range unsaved.files {
		if k.session == session {
			files[k.name] = c
		}
	}
	for k, state := range unsaved.pluginStates {
		if k.session == session {
			out.Plugins[k.name] = state
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if c := files[path]; !c.removed {
			out.Files = append(out.Files, c.state)
		}
	}
	return out, true, nil
}

// Restore saves the state of a session under the ID in the snapshot.
func (d *DB) Restore(s Snapshot) {
	d.change(func(b *batch) {
		put(&b.sessions, s.ID, s.Session)
		for _, f := range s.Files {
			put(&b.files, key{s.ID, f.Path}, fileChange{state: f})
		}
		for plugin, state := range s.Plugins {
			put(&b.pluginStates, key{s.ID, plugin}, state)
		}
	})
}

// Fork copies the directory, the file states and the plugins' states of a session to a new session. It does nothing if
// the source session does not exist.
func (d *DB) Fork(from, to string) error {
	s, known, err := d.Snapshot(from)
	if err != nil || !known {
		return err
	}
	s.ID = to
	d.Restore(s)
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
