package state

import (
	"maps"
	"slices"

	"toolhost.dev/sdk/tool"
)

// Change contains the changes that calls made in a session.
type Change struct {
	// Whole means that the change replaces the whole state of the session.
	Whole bool `json:"whole,omitempty"`
	// Session is the session after the changes. It is nil if its directory did not change.
	Session *Session `json:"session,omitempty"`
	// Files contains the states of files that the session read or changed. Removed contains the paths of files that the
	// session removed.
	Files   []tool.FileState `json:"files,omitempty"`
	Removed []string         `json:"removed,omitempty"`
	// Plugins maps the names of plugins to the states that they stored in the session.
	Plugins map[string][]byte `json:"plugins,omitempty"`
}

// Empty reports whether nothing changed.
func (c *Change) Empty() bool {
	return c.Session == nil && len(c.Files) == 0 && len(c.Removed) == 0 && len(c.Plugins) == 0
}

// Follow begins to collect the changes of a session, for [DB.Changes]. [DB.Unfollow] ends the collection.
func (d *DB) Follow(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.followed == nil {
		d.followed = make(map[string]*batch)
	}
	if d.followed[session] == nil {
		d.followed[session] = new(batch)
	}
}

// Unfollow ends the collection of a session's changes.
func (d *DB) Unfollow(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.followed, session)
}

// Changes returns the changes of a session since the last call of Changes or Follow.
func (d *DB) Changes(session string) (out Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.followed[session]
	if b == nil {
		return out
	}
	d.followed[session] = new(batch)
	if s, ok := b.sessions[session]; ok {
		out.Session = &s
	}
	files := make(map[string]fileChange, len(b.files))
	for k, f := range b.files {
		files[k.name] = f
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if f := files[path]; f.removed {
			out.Removed = append(out.Removed, path)
		} else {
			out.Files = append(out.Files, f.state)
		}
	}
	for k, s := range b.pluginStates {
		put(&out.Plugins, k.name, s)
	}
	return out
}

// follow adds a change to the collections of followed sessions. The caller must hold the lock.
func (d *DB) follow(f func(b *batch)) {
	if len(d.followed) == 0 {
		return
	}
	var all batch
	f(&all)
	for id, s := range all.sessions {
		if b := d.followed[id]; b != nil {
			put(&b.sessions, id, s)
		}
	}
	for k, c := range all.files {
		if b := d.followed[k.session]; b != nil {
			put(&b.files, k, c)
		}
	}
	for k, s := range all.pluginStates {
		if b := d.followed[k.session]; b != nil {
			put(&b.pluginStates, k, s)
		}
	}
}

// ApplyChange makes a change in a session, for example one that another host recorded.
func (d *DB) ApplyChange(session string, c Change) {
	d.change(func(b *batch) {
		if c.Session != nil {
			s := *c.Session
			s.ID = session
			put(&b.sessions, session, s)
		}
		for _, f := range c.Files {
			put(&b.files, key{session, f.Path}, fileChange{state: f})
		}
		for _, path := range c.Removed {
			put(&b.files, key{session, path}, fileChange{state: tool.FileState{Path: path}, removed: true})
		}
		for plugin, s := range c.Plugins {
			put(&b.pluginStates, key{session, plugin}, s)
		}
	})
}
