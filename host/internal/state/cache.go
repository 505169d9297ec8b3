package state

import (
	"os"
	"sync"
)

// fileVersion changes whenever a process commits to the database, because each commit appends to the write-ahead
// log or restarts it.
type fileVersion struct {
	size, mtime int64
}

// version returns the current version, or the zero value if it is unknown.
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

// Limits of the cache.
const (
	maxCachedSessions = 1000
	maxCachedStates   = 16 << 20 // bytes
)

// cache holds what was read or written at one version of the file. Every call needs its session and the state of
// its plugin, and a check of the version takes a tenth of the time of a query.
type cache struct {
	mu       sync.Mutex
	valid    fileVersion
	sessions map[string]Session
	states   map[key][]byte
	size     int // of states, in bytes
}

// session returns a session if the cache has it for the version.
func (c *cache) session(id string, v fileVersion) (Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[id]
	return s, ok && c.at(v)
}

// state returns the state of a plugin in a session if the cache has it for the version.
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

// turnTo drops the entries of other versions.
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

// wrote adds what this process has written between two versions. No other process may have written in between, so
// that the other entries stay valid.
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
