package state

import (
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"
)

type key struct{ session, name string }

// batch is a set of writes, later ones over earlier ones.
type batch struct {
	sessions     map[string]Session
	files        map[key]fileChange
	pluginStates map[key][]byte
	history      []Entry
}

type fileChange struct {
	state   tool.FileState
	removed bool
}

func (b *batch) empty() bool {
	return len(b.sessions) == 0 && len(b.files) == 0 && len(b.pluginStates) == 0 && len(b.history) == 0
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// change adds to the pending writes and wakes the writer.
func (d *DB) change(f func(b *batch)) {
	d.mu.Lock()
	f(&d.pending)
	d.mu.Unlock()
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// flusher writes what is pending, a moment after it came, until Close.
func (d *DB) flusher() {
	defer close(d.stopped)
	for {
		select {
		case <-d.signal:
			select {
			case <-time.After(flushDelay):
			case <-d.done:
			}
			if err := d.Flush(); err != nil {
				d.log.Error("session state could not be saved; it is kept in memory and tried again", "error", err)
			}
		case <-d.done:
			d.closeErr = d.Flush()
			return
		}
	}
}

// Flush writes everything pending now. What cannot be written stays pending.
func (d *DB) Flush() error {
	d.mu.Lock()
	if !d.writing.empty() { // only the flusher and Close write, one after the other
		d.mu.Unlock()
		return errors.New("state: a write is under way")
	}
	if d.pending.empty() {
		d.mu.Unlock()
		return nil
	}
	d.writing, d.pending = d.pending, batch{}
	b := d.writing
	d.mu.Unlock()

	err := d.write(b)

	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		merged := b
		d.pending.onto(&merged)
		d.pending = merged
	}
	d.writing = batch{}
	return err
}

// onto adds b's writes over those of a.
func (b *batch) onto(a *batch) {
	for k, v := range b.sessions {
		put(&a.sessions, k, v)
	}
	for k, v := range b.files {
		put(&a.files, k, v)
	}
	for k, v := range b.pluginStates {
		put(&a.pluginStates, k, v)
	}
	a.history = append(a.history, b.history...)
}

func (d *DB) write(b batch) error {
	tx, err := d.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = tx.Exec(query, args...)
		}
	}
	now := time.Now().UnixNano()
	for id, s := range b.sessions {
		exec(`INSERT INTO sessions (id, workspace, cwd, created_ns, used_ns) VALUES (?1, ?2, ?3, ?4, ?4)
			ON CONFLICT (id) DO UPDATE SET workspace = ?2, cwd = ?3, used_ns = ?4`, id, s.Workspace, s.Cwd, now)
	}
	for k, c := range b.files {
		if c.removed {
			exec(`DELETE FROM file_states WHERE session = ? AND path = ?`, k.session, k.name)
			continue
		}
		exec(`INSERT OR REPLACE INTO file_states (session, path, mtime_ns, size, hash, partial) VALUES (?, ?, ?, ?, ?, ?)`,
			k.session, k.name, c.state.ModTime.UnixNano(), c.state.Size, c.state.Hash[:], c.state.Partial)
	}
	for k, v := range b.pluginStates {
		exec(`INSERT OR REPLACE INTO plugin_states (session, plugin, state) VALUES (?, ?, ?)`, k.session, k.name, v)
	}
	trimmed := make(map[string]bool)
	for _, e := range b.history {
		exec(`INSERT INTO history (session, at_ns, command, tool, success) VALUES (?, ?, ?, ?, ?)`,
			e.Session, e.At.UnixNano(), e.Command, e.Tool, e.Success)
		trimmed[e.Session] = true
	}
	for s := range trimmed {
		exec(`DELETE FROM history WHERE session = ?1 AND id <= (SELECT id FROM history WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, s, MaxHistory)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// lookup finds the newest value that is not yet in the database.
func lookup[K comparable, V any](d *DB, k K, in func(*batch) map[K]V) (V, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := in(&d.pending)[k]; ok {
		return v, true
	}
	v, ok := in(&d.writing)[k]
	return v, ok
}
