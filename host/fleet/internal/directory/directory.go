// Package directory knows which node has which session. [Directory.Find] looks a session up in a map. The result is
// only a hint: the compare-and-swap of [Directory.Create] and [Directory.Replace] decides which node has a session.
package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/surplus"
)

// Schema is the number of the format of entries.
const Schema = 1

// Entry is what the fleet knows about a session.
type Entry struct {
	Schema int `json:"schema"`
	// Owner is the name of the node that has the session, and Incarnation identifies the run of that node.
	Owner       string `json:"owner"`
	Incarnation string `json:"incarnation"`
	// Epoch counts the owners of the session. It is the fencing token for everything that the owner writes. Opened is
	// the last epoch whose owner opened the journal.
	Epoch  uint64 `json:"epoch"`
	Opened uint64 `json:"opened,omitempty"`
	// Workspace is the name of the workspace. Shared means that other nodes can take the session. Identity is the
	// identity of the shared files, so only nodes with these files can take the session. It is empty in entries by
	// versions of toolhost that did not write it.
	Workspace string `json:"workspace"`
	Shared    bool   `json:"shared,omitempty"`
	Identity  string `json:"identity,omitempty"`
	// Principal is the name of the principal that owns the session, and Session is the id of the session.
	Principal string `json:"principal"`
	Session   string `json:"session"`
	Config    string `json:"config,omitempty"`
	// At is when the entry was written, by the clock of the coordinators.
	At time.Time `json:"at"`

	// Revision is the revision of the entry. Unknown contains the fields that a later version of toolhost added.
	Revision uint64         `json:"-"`
	Unknown  surplus.Fields `json:"-"`
}

// Unguarded makes [Directory.Replace] succeed even if the entry has changed. It is set only in programs of tests that
// leave out guards.
var Unguarded bool

// Key returns the key of a session. Sessions of different principals and workspaces have different keys.
func Key(principal, workspace, session string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(principal), principal, len(workspace), workspace, session))
	return hex.EncodeToString(h[:16])
}

// Directory is the directory of a fleet. It is safe for concurrent use.
type Directory struct {
	kv  jetstream.KeyValue
	log *slog.Logger
	now func() time.Time

	mu      sync.RWMutex
	entries map[string]*Entry
	// gone has the last revisions of entries that were removed, until the watch reports the removal. The watch can
	// report these revisions after the removal.
	gone   map[string]uint64
	loaded chan struct{}
	once   sync.Once
}

// New returns the directory in a bucket. now is the clock of the coordinators.
func New(kv jetstream.KeyValue, now func() time.Time, log *slog.Logger) *Directory {
	return &Directory{kv: kv, now: now, log: log, entries: make(map[string]*Entry), gone: make(map[string]uint64),
		loaded: make(chan struct{})}
}

// Run keeps the map current until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := d.kv.WatchAll(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		for e := range w.Updates() {
			d.update(e)
		}
	}
}

func (d *Directory) update(e jetstream.KeyValueEntry) {
	if e == nil {
		d.once.Do(func() { close(d.loaded) })
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		d.mu.Lock()
		if old := d.entries[e.Key()]; old != nil && old.Revision < e.Revision() {
			delete(d.entries, e.Key())
		}
		if d.gone[e.Key()] < e.Revision() {
			delete(d.gone, e.Key())
		}
		d.mu.Unlock()
		return
	}
	out, err := decode(e)
	if err != nil {
		d.log.Error("the entry of a session cannot be read", "key", e.Key(), "why", err)
		return
	}
	d.put(e.Key(), out)
}

func decode(e jetstream.KeyValueEntry) (*Entry, error) {
	out := new(Entry)
	var err error
	if out.Unknown, err = surplus.Decode(e.Value(), out); err != nil {
		return nil, err
	}
	if out.Schema > Schema {
		return nil, fmt.Errorf("the entry has format %d, and this version of toolhost reads %d", out.Schema, Schema)
	}
	out.Revision = e.Revision()
	return out, nil
}

func (d *Directory) put(key string, e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.entries[key]; e.Revision > d.gone[key] && (old == nil || old.Revision < e.Revision) {
		d.entries[key] = e
	}
}

// Loaded waits until all existing entries are known.
func (d *Directory) Loaded(ctx context.Context) error {
	select {
	case <-d.loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Find returns the last known entry of a session, or nil. The caller must not change the entry.
func (d *Directory) Find(key string) *Entry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.entries[key]
}

// All calls f for each known entry until f returns false. The function f must not call methods of the directory.
func (d *Directory) All(f func(key string, e *Entry) bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key, e := range d.entries {
		if !f(key, e) {
			return
		}
	}
}

// Read reads an entry from the bucket. The result can be older than the last entry.
func (d *Directory) Read(ctx context.Context, key string) (*Entry, error) {
	c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
	defer cancel()
	e, err := d.kv.Get(c, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil //nolint:nilnil // a session that nobody has is no error
	}
	if err != nil {
		return nil, err
	}
	out, err := decode(e)
	if err == nil {
		d.put(key, out)
	}
	return out, err
}

// Create adds a new session. If another node added the session first, Create returns the entry of that node.
func (d *Directory) Create(ctx context.Context, key string, e Entry) (*Entry, error) {
	e.Schema, e.Epoch, e.At = Schema, 1, d.now()
	b, err := surplus.Encode(e, e.Unknown)
	if err != nil {
		return nil, err
	}
	c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
	defer cancel()
	if e.Revision, err = d.kv.Create(c, key, b); err == nil {
		d.put(key, &e)
		return &e, nil
	}
	if !bus.IsConflict(err) {
		return nil, err
	}
	other, err := d.Read(ctx, key)
	if err == nil && other == nil {
		err = errors.New("the session was removed meanwhile")
	}
	return other, err
}

// Replace changes an entry by compare-and-swap. The error is a conflict if the entry has changed; see [bus.IsConflict].
func (d *Directory) Replace(ctx context.Context, key string, e Entry) (*Entry, error) {
	e.Schema, e.At = Schema, d.now()
	b, err := surplus.Encode(e, e.Unknown)
	if err != nil {
		return nil, err
	}
	c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
	defer cancel()
	if Unguarded {
		e.Revision, err = d.kv.Put(c, key, b)
	} else {
		e.Revision, err = d.kv.Update(c, key, b, e.Revision)
	}
	if err != nil {
		return nil, err
	}
	d.put(key, &e)
	return &e, nil
}

// Remove removes the entry of a session that is not in use.
func (d *Directory) Remove(ctx context.Context, key string, e *Entry) error {
	if err := d.kv.Delete(ctx, key, jetstream.LastRevision(e.Revision)); err != nil {
		return err
	}
	d.Removed(key, e.Revision)
	return nil
}

// Removed makes Find forget an entry that was removed, before the watch reports the removal. revision is the last
// revision of the entry.
func (d *Directory) Removed(key string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.entries[key]; old != nil && old.Revision <= revision {
		delete(d.entries, key)
		d.gone[key] = revision
	}
}
