package state

import (
	"os"
	"sync"
)

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

// Bounds of the memory for what is cached.
const (
	maxCachedSessions = 1000
	maxCachedStates   = 16 << 20 // bytes
)

// cache holds what was read or written at one version of the file: every call needs its
// session and its plugin's state, and a look at the log is a tenth of a query.
type cache struct {
	mu       sync.Mutex
	valid    fileVersion
	sessions map[string]Session
	states   map[key][]byte
	size     int // of states, in bytes
}

// session gives a session as it is at a version.
func (c *cache) session(id string, v fileVersion) (Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[id]
	return s, ok && c.at(v)
}

// state gives what a plugin keeps for a session, as it is at a version.
func (c *cache) state(k key, v fileVersion) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[k]
	return s, ok && c.at(v)
}

func (c *cache) at(v fileVersion) bool { return v != (fileVersion{}) && v == c.valid }

// putSession adds a session that was read at a version.
func (c *cache) putSession(s Session, v fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnTo(v)
	c.addSession(s)
}

// putState adds a plugin's state that was read at a version.
func (c *cache) putState(k key, state []byte, v fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnTo(v)
	c.addState(k, state)
}

// turnTo drops what is of another version.
func (c *cache) turnTo(v fileVersion) {
	if !c.at(v) {
		c.drop()
		c.valid = v
	}
}

func (c *cache) drop() { c.sessions, c.states, c.size = nil, nil, 0 }

func (c *cache) addSession(s Session) {
	if len(c.sessions) >= maxCachedSessions {
		c.sessions = nil
	}
	put(&c.sessions, s.ID, s)
}

func (c *cache) addState(k key, state []byte) {
	c.size += len(k.session) + len(k.name) + len(state) - len(c.states[k])
	if c.size > maxCachedStates {
		c.states, c.size = nil, len(k.session)+len(k.name)+len(state)
	}
	put(&c.states, k, state)
}

// wrote takes over what this process has written, when nobody else has written between the
// two versions. What is known of the first then holds for the second.
func (c *cache) wrote(b *batch, before, after fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at(before) || after == (fileVersion{}) {
		return
	}
	c.valid = after
	for _, s := range b.sessions {
		c.addSession(s)
	}
	for k, state := range b.pluginStates {
		c.addState(k, state)
	}
}
