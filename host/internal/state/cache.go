package state

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// fileVersion identifies a version of the database file. Every commit of any process changes the version, because a
// commit appends to the write-ahead log or restarts the log.
type fileVersion struct {
	size, mtime int64
}

// version returns the current version of the database file. The zero value means that the version is
// unknown.
func (d *DB) version() fileVersion {
	if d.path == "" {
		return fileVersion{}
	}
	return d.wal.version(d.path + "-wal")
}

// wal is the open write-ahead log of the database. Every write of any process changes this file. Each call
// needs the version of the file five times. To query the version through the open file takes a tenth of the time of a
// query by path. SQLite's locks are on another file, so closing this file releases no lock.
type wal struct {
	mu   sync.Mutex
	fd   int
	open bool
}

// version returns the version of the file at a path. The path must always be the same.
func (w *wal) version(path string) fileVersion {
	w.mu.Lock()
	defer w.mu.Unlock()
	var st unix.Stat_t
	for range 2 {
		if !w.open {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return fileVersion{}
			}
			w.fd, w.open = fd, true
		}
		if unix.Fstat(w.fd, &st) == nil && st.Nlink > 0 {
			return fileVersion{size: st.Size, mtime: time.Unix(st.Mtim.Unix()).UnixNano()}
		}
		w.release() // the file was removed, and another file can exist at its path
	}
	return fileVersion{}
}

func (w *wal) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
}

func (w *wal) release() {
	if w.open {
		_ = unix.Close(w.fd) // error ignored: nothing was written
		w.open = false
	}
}

// These constants limit the cache.
const (
	maxCachedSessions = 1000
	maxCachedStates   = 16 << 20 // size in bytes
)

// cache holds data from one version of the database file. It saves two queries per call: for the session and
// for the plugin state. A check of the file version takes a tenth of the time of a query.
type cache struct {
	mu       sync.Mutex
	valid    fileVersion
	sessions map[string]Session
	states   map[key][]byte
	size     int // total size of states, in bytes
}

// session returns a session from the cache. The result ok is false if the cache does not contain the
// session at file version v.
func (c *cache) session(id string, v fileVersion) (Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[id]
	return s, ok && c.isValid(v)
}

// state returns a plugin's state in a session from the cache. The second result is false if the cache does
// not contain the state at file version v.
func (c *cache) state(k key, v fileVersion) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[k]
	return s, ok && c.isValid(v)
}

func (c *cache) isValid(v fileVersion) bool { return v != (fileVersion{}) && v == c.valid }

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
	if !c.isValid(v) {
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

// wrote adds the data in a batch to the cache and keeps all other data. The argument "before" is the file
// version before the batch was written, and "after" is the version afterwards. The caller must make sure that no other
// process wrote to the database between the two versions.
func (c *cache) wrote(b *batch, before, after fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isValid(before) || after == (fileVersion{}) {
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
