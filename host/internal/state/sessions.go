package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
)

// MaxHistory is the maximum number of commands in a session's history.
const MaxHistory = 1000

// Session is a session of the host.
type Session struct {
	ID string `json:"id"`
	// Workspace is the absolute path of the session's read-write root.
	Workspace string `json:"workspace"`
	// Cwd is the absolute working directory of the session.
	Cwd string `json:"cwd"`
	// Used is the time of the last change of the session.
	Used time.Time `json:"used,omitzero"`
}

// Entry is one command of a session's history.
type Entry struct {
	Session string
	At      time.Time
	Command string
	// Arguments is a JSON object with the arguments of the call if the call has no command string. [DB.History] returns
	// the arguments as part of Command.
	Arguments json.RawMessage
	Tool      string
	Success   bool

	masked bool // whether the secrets in Command are already masked
}

// Session returns the session with the given id. The result "ok" is false if the session does not exist.
func (d *DB) Session(id string) (s Session, ok bool, err error) {
	if s, ok := lookup(d, id, func(b *batch) map[string]Session { return b.sessions }); ok {
		return s, true, nil
	}
	version := d.version()
	if s, ok := d.cache.session(id, version); ok {
		return s, true, nil
	}
	s.ID = id
	err = d.stmt.session.QueryRow(id).Scan(&s.Workspace, &s.Cwd)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s, false, nil
	case err != nil:
		return s, false, err
	}
	d.cache.putSession(s, version)
	return s, true, nil
}

// lookup searches the batches for the newest value with a key. The database does not contain such a value
// yet.
func lookup[K comparable, V any](d *DB, k K, in func(*batch) map[K]V) (V, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := in(&d.pending)[k]; ok {
		return v, true
	}
	if v, ok := in(&d.writing)[k]; ok {
		return v, true
	}
	v, ok := in(&d.orphaned)[k]
	return v, ok
}

// SaveSession saves a session.
func (d *DB) SaveSession(s Session) {
	d.change(func(b *batch) { put(&b.sessions, s.ID, s) })
}

// ofPreviews matches the ids of the sessions of previews; see [DB.Fork].
var ofPreviews = "*+preview-" + strings.Repeat("[0-9a-f]", 16)

// Sessions lists the sessions, most recently used first. It leaves out the sessions of previews, because each belongs
// to one call that has ended, and no other call can continue it.
func (d *DB) Sessions(limit int) ([]Session, error) {
	rows, err := d.sql.Query(`SELECT id, workspace, cwd, used_ns FROM sessions WHERE id NOT GLOB ? ORDER BY used_ns DESC LIMIT ?`, ofPreviews, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []Session
	for rows.Next() {
		var s Session
		var used int64
		if err := rows.Scan(&s.ID, &s.Workspace, &s.Cwd, &used); err != nil {
			return nil, err
		}
		s.Used = time.Unix(0, used)
		out = append(out, s)
	}
	return out, rows.Err()
}

// FileState returns the state that a file had when the session last read or changed it.
func (d *DB) FileState(session, path string) (tool.FileState, bool, error) {
	if c, ok := lookup(d, key{session, path}, func(b *batch) map[key]fileChange { return b.files }); ok {
		return c.state, !c.removed, nil
	}
	var mtime int64
	var hash []byte
	s := tool.FileState{Path: path}
	err := d.stmt.fileState.QueryRow(session, path).Scan(&mtime, &s.Size, &hash, &s.Partial)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	s.ModTime = time.Unix(0, mtime)
	copy(s.Hash[:], hash)
	return s, true, nil
}

// Apply saves the states of the files that a call read or changed.
func (d *DB) Apply(session string, effects []tool.Effect) {
	if len(effects) == 0 {
		return
	}
	d.change(func(b *batch) {
		for _, e := range effects {
			put(&b.files, key{session, e.File.Path}, fileChange{state: e.File, removed: e.Operation == tool.OpDelete})
		}
	})
}

// PluginState returns the saved state of a plugin in a session. It returns nil if no state is saved. The caller must
// not modify the slice.
func (d *DB) PluginState(session, plugin string) ([]byte, error) {
	if s, ok := lookup(d, key{session, plugin}, func(b *batch) map[key][]byte { return b.pluginStates }); ok {
		return s, nil
	}
	version := d.version()
	if s, ok := d.cache.state(key{session, plugin}, version); ok {
		return s, nil
	}
	var s []byte
	err := d.stmt.pluginState.QueryRow(session, plugin).Scan(&s)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	d.cache.putState(key{session, plugin}, s, version)
	return s, nil
}

// SavePluginState saves the state of a plugin in a session.
func (d *DB) SavePluginState(session, plugin string, s []byte) {
	d.change(func(b *batch) { put(&b.pluginStates, key{session, plugin}, s) })
}

// Masking removes secrets from commands and arguments before they are saved or shown. Several goroutines can call the
// functions.
type Masking struct {
	Command   func(string) string
	Arguments func(raw []byte) string
	// JSON masks a JSON text of any size. It reports whether the text contained secrets. Text does the same for other
	// texts.
	JSON func(raw []byte) ([]byte, bool)
	Text func(string) string
}

// Mask enables the masking of new history entries. Existing entries do not change.
func (d *DB) Mask(m Masking) { d.masking.Store(&m) }

// MaskCommand returns a command with its secrets masked.
func (d *DB) MaskCommand(command string) string {
	if m := d.masking.Load(); m != nil {
		return m.Command(command)
	}
	return command
}

// MaskJSON returns a JSON text with its secrets masked, and reports whether it contained secrets.
func (d *DB) MaskJSON(raw []byte) ([]byte, bool) {
	if m := d.masking.Load(); m != nil && m.JSON != nil && len(raw) > 0 {
		return m.JSON(raw)
	}
	return raw, false
}

// MaskText returns a text with its secrets masked, and reports whether it contained secrets.
func (d *DB) MaskText(s string) (string, bool) {
	if m := d.masking.Load(); m != nil && m.Text != nil {
		masked := m.Text(s)
		return masked, masked != s
	}
	return s, false
}

// masked returns the text of an entry with secrets masked.
func (d *DB) masked(e *Entry) string {
	m := d.masking.Load()
	switch {
	case e.masked:
		return e.Command
	case m == nil && e.Arguments == nil:
		return e.Command
	case m == nil:
		return e.Command + " " + string(e.Arguments)
	case e.Arguments == nil:
		return m.Command(e.Command)
	}
	return e.Command + " " + m.Arguments(e.Arguments)
}

// AddHistory adds a command to the history. It masks the secrets at once, because the journal must not contain secrets.
func (d *DB) AddHistory(e Entry) {
	e.Command, e.Arguments, e.masked = d.masked(&e), nil, true
	d.change(func(b *batch) { b.history = append(b.history, e) })
}

// History returns the last commands of a session, oldest first.
func (d *DB) History(session string, limit int) ([]Entry, error) {
	rows, err := d.sql.Query(`SELECT at_ns, command, tool, success FROM
		(SELECT * FROM history WHERE session = ? ORDER BY id DESC LIMIT ?) ORDER BY id`, session, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []Entry
	for rows.Next() {
		e := Entry{Session: session}
		var at int64
		if err := rows.Scan(&at, &e.Command, &e.Tool, &e.Success); err != nil {
			return nil, err
		}
		e.At = time.Unix(0, at)
		out = append(out, e)
	}
	return out, rows.Err()
}

// Began returns the time of the oldest command in a session's history. The result is zero if the history is empty.
func (d *DB) Began(session string) time.Time {
	var at int64
	if d.sql.QueryRow(`SELECT at_ns FROM history WHERE session = ? ORDER BY id LIMIT 1`, session).Scan(&at) == nil {
		return time.Unix(0, at)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range []*batch{&d.orphaned, &d.writing, &d.pending} {
		for _, e := range b.history {
			if e.Session == session {
				return e.At
			}
		}
	}
	return time.Time{}
}

// maxSummary limits the length of a summary in characters.
const maxSummary = 200

// Summaries returns the summaries in the states of a session's plugins by plugin name. The summary is the member
// "summary" of a state. It counts only if the state is a JSON object and the member is a non-empty string. Summaries
// shortens each summary to one line and masks secrets.
func (d *DB) Summaries(session string) (map[string]string, error) {
	unsaved := d.unsaved() // before the query, because the flusher can write the batch at any time
	states := make(map[string][]byte)
	rows, err := d.sql.Query(`SELECT plugin, state FROM plugin_states WHERE session = ? AND substr(CAST(state AS BLOB), 1, 1) = x'7B'`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var plugin string
		var state []byte
		if err := rows.Scan(&plugin, &state); err != nil {
			return nil, err
		}
		states[plugin] = state
	}
	for k, state := range unsaved.pluginStates {
		if k.session == session {
			states[k.name] = state
		}
	}
	var out map[string]string
	for plugin, state := range states {
		var s struct {
			Summary string `json:"summary"`
		}
		if json.Unmarshal(state, &s) != nil {
			continue
		}
		if text := d.MaskCommand(strings.Join(strings.Fields(s.Summary), " ")); text != "" {
			if r := []rune(text); len(r) > maxSummary {
				text = string(r[:maxSummary-1]) + "…"
			}
			put(&out, plugin, text)
		}
	}
	return out, rows.Err()
}
