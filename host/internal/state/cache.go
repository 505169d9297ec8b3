package state

import (
	"os"
	"sync"
)

// fileVersion identifies a version of the database file. Every commit of any process changes the version, because a
// commit appends to the write-ahead log or restarts the log.
type fileVersion struct {
	size, mtime int64
}

// The method "version" returns the current version of the database file. The zero value means that the version is
// unknown.
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
	maxCachedStates   = 16 << 20 // size in bytes
)

// The type "cache" holds data from one version of the database file. It saves two queries per call: for the session and
// for the plugin state. A check of the file version takes a tenth of the time of a query.
type cache struct {
	mu       sync.Mutex
	valid    fileVersion
	sessions map[string]Session
	states   map[key][]byte
	size     int // total size of states, in bytes
}

// The method "session" returns a session from the cache. The result ok is false if the cache does not contain the
// session at file version v.
func (c *cache) session(id string, v fileVersion) (Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[id]
	return s, ok && c.at(v)
}

// The method "state" returns a plugin's state in a session from the cache. The second result is false if the cache does
// not contain the state at file version v.
func (c *cache) state(k key, v fileVersion) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[k]
	return s, ok && c.at(v)
}

func (c *cache) at(v fileVersion) bool { return v != (fileVersion{}) && v == c.valid }

// putSession adds a session from file version v to the cache.
func (c *cache) putSession(s Session, v fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnTo(v)
	c.addSession(s)
}

// putState adds a plugin's state from file version v to the cache.
func (c *cache) putState(k key, state []byte, v fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnTo(v)
	c.addState(k, state)
}

// turnTo prepares the cache for file version v. It removes all data of other versions.
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

// The method "wrote" adds the data in a batch to the cache and keeps all other data. The batch changed the file version
// from before to after. The caller must make sure that no other process wrote to the database meanwhile.
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
