package state

import "os"

// fileVersion changes whenever any process commits to the database: each commit
// appends to the write-ahead log, or begins it anew.
type fileVersion struct {
	size, mtime int64
}

// version gives the current one; the zero value when it cannot be told.
func (d *DB) version() fileVersion {
	if d.path == "" {
		return fileVersion{}
	}
	st, err := os.Stat(d.path + "-wal")
	if err != nil {
		return fileVersion{}
	}
	return fileVersion{size: st.Size(), mtime: st.ModTime().UnixNano()}
}

// maxCachedSessions bounds the memory for sessions.
const maxCachedSessions = 1000

// cached gives a session that was read at that version: every call needs its session,
// and a look at the log is a tenth of a query.
func (d *DB) cached(id string, v fileVersion) (Session, bool) {
	d.cacheMu.Lock()
	defer d.cacheMu.Unlock()
	if v == (fileVersion{}) || v != d.sessionsValid {
		return Session{}, false
	}
	s, ok := d.sessions[id]
	return s, ok
}

func (d *DB) cache(s Session, v fileVersion) {
	if v == (fileVersion{}) {
		return
	}
	d.cacheMu.Lock()
	defer d.cacheMu.Unlock()
	if v != d.sessionsValid || len(d.sessions) >= maxCachedSessions {
		d.sessions, d.sessionsValid = make(map[string]Session), v
	}
	d.sessions[s.ID] = s
}
