package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/surplus"
	"toolhost.dev/sdk/tool"
)

// owned is a session that this node has.
type owned struct {
	key         string
	incarnation string
	shared      bool
	// movedFrom is the node from which the session moved to this node. It is empty after a result has reported the
	// move.
	movedFrom string
	// lost names the parts of the state that did not move, because they were too large. It is empty after a result has
	// reported them.
	lost []string
	// nodes contains the other nodes that had the session earlier. It does not change while the session is open.
	nodes []string
	// unknown contains the parts of the session's state that only a later version of toolhost knows. It does not change
	// while the session is open.
	unknown surplus.Fields
	ready   chan struct{} // closed when the session is open, or failed to open
	failed  *refusal
	entry   *directory.Entry
	log     *journal.Log // nil for a session that cannot move
	request host.Request // identifies the session for the host
	taken   func() *host.SessionChange
	stop    func()

	mu      sync.Mutex
	calls   map[string]*earlier
	order   []string                 // ids of calls, oldest first
	active  map[string]chan struct{} // ids of requests that run
	running int
	used    time.Time // end of the last call
	moving  bool
	idle    chan struct{} // closed when no call runs; nil if nothing waits for it
	gone    bool
}

// earlier is a call that began earlier in a session.
type earlier struct {
	digest []byte
	at     time.Time    // by the clock of the coordinators
	result *tool.Result // nil if the result is not kept
	ended  bool
}

// Limits of the calls that an owner remembers.
const (
	maxKnown       = 256
	knownFor       = time.Hour
	maxKeptResult  = 64 << 10
	maxKeptResults = 32
)

// idleFor returns the time since the last call. It is zero while a call runs, and before the first one.
func (o *owned) idleFor() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running > 0 || o.used.IsZero() {
		return 0
	}
	return time.Since(o.used)
}

// isReady reports whether the session is open, or failed to open.
func (o *owned) isReady() bool {
	select {
	case <-o.ready:
		return true
	default:
		return false
	}
}

func (o *owned) isBroken() bool { return o.isReady() && o.log != nil && o.log.Failed() != nil }

// drop ends the use of a session. The caller must have removed it from the map.
func (o *owned) drop() {
	o.mu.Lock()
	o.gone = true
	stop := o.stop
	o.stop = nil
	o.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// remember adds the calls in the records of earlier owners to the known calls.
func (o *owned) remember(records []journal.Record, now time.Time) {
	for i := range records {
		r := &records[i]
		switch r.Kind {
		case journal.Begun:
			o.add(r.Call, &earlier{digest: r.Digest, at: r.At}, now)
		case journal.Done:
			k := &earlier{digest: r.Digest, at: r.At, ended: true}
			if old := o.calls[r.Call]; old != nil {
				k.digest = old.digest
			}
			k.result, _ = decodeResult(r.Result) // a result that cannot be read counts as not kept
			o.add(r.Call, k, now)
		case journal.Snapshot:
			for _, s := range r.Known {
				if o.calls[s.Call] == nil {
					k := &earlier{digest: s.Digest, at: s.At, ended: s.Done}
					k.result, _ = decodeResult(s.Result) // most have none
					o.add(s.Call, k, now)
				}
			}
		case journal.Epoch, journal.State:
		}
	}
}

// nodesOf returns the nodes that wrote records of a session, without the node except.
func nodesOf(records []journal.Record, except string) (out []string) {
	for i := range records {
		for _, node := range append(slices.Clone(records[i].Nodes), records[i].Node) {
			if node != except && !slices.Contains(out, node) {
				out = append(out, node)
			}
		}
	}
	return out
}

// add remembers a call, and forgets old calls. The caller must hold the lock, or be the only user of the session.
func (o *owned) add(id string, k *earlier, now time.Time) {
	if o.calls[id] == nil {
		o.order = append(o.order, id)
	}
	o.calls[id] = k
	kept := 0
	for i := len(o.order) - 1; i >= 0; i-- {
		old := o.calls[o.order[i]]
		if old.result != nil {
			if kept++; kept > maxKeptResults {
				old.result = nil
			}
		}
	}
	for len(o.order) > maxKnown ||
		len(o.order) > 0 && o.calls[o.order[0]].ended && now.Sub(o.calls[o.order[0]].at) > knownFor {
		delete(o.calls, o.order[0])
		o.order = o.order[1:]
	}
}

// reserve reserves the id of a call, so that no other request with this id runs at the same time. If a call with this
// id ran earlier, reserve returns it as k. If a request with this id is running, reserve returns a channel that is
// closed when that request has ended.
func (o *owned) reserve(in *incoming) (k *earlier, active <-chan struct{}, refused *refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if without("once") {
		in.id = rand.Text()
	}
	if k = o.calls[in.id]; k != nil && !bytes.Equal(k.digest, in.digest) {
		return nil, nil, &refusal{reason: answered, err: tool.Errorf(tool.InvalidArguments, "Another call of this session had the id %q. Use a new id for a new call.", in.id)}
	}
	if running := o.active[in.id]; running != nil {
		return nil, running, nil
	}
	if k == nil {
		if o.active == nil {
			o.active = make(map[string]chan struct{})
		}
		o.active[in.id] = make(chan struct{})
	}
	return k, nil, nil
}

// release ends the reservation of an id.
func (o *owned) release(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.active[id])
	delete(o.active, id)
}

// repeated returns the result of an earlier call with the same id.
func (o *owned) repeated(node string, k *earlier) *tool.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case k.result != nil:
		out := *k.result
		out.Metadata = maps.Clone(out.Metadata)
		if out.Metadata == nil {
			out.Metadata = make(map[string]any)
		}
		out.Metadata["repeated"] = true
		return &out
	case k.ended:
		return tool.Failed(tool.Errorf(tool.Unavailable, "The call with this id ended before, and its result is not kept any more. Read the files to see what it did.").WithCode(CodeUnknown).From(tool.SourceHost))
	}
	return tool.Failed(outcomeUnknown(node, ""))
}

func errJournalFull() *tool.Error {
	return tool.Errorf(tool.Unavailable, "The journal of the fleet has no room, so calls that change shared files cannot run. Nothing was run. Ask the operator to make room: toolhost fleet status.").WithCode(CodeJournalFull).WithRetryAfter(10 * time.Second)
}

// SaveClient saves the description of an MCP client's session, so that the client can continue the session at another
// node.
func (f *Fleet) SaveClient(ctx context.Context, id string, description []byte) error {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	_, err := f.bus.Clients.Put(ctx, id, description)
	return err
}

// FindClient returns the description of a session of an MCP client, or nil.
func (f *Fleet) FindClient(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	e, err := f.bus.Clients.Get(ctx, id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New("the coordinators of the fleet do not answer")
	}
	return e.Value(), nil
}

// DropClient forgets a session of an MCP client.
func (f *Fleet) DropClient(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	return f.bus.Clients.Delete(ctx, id)
}

// clientPatience is the maximum time for reading or writing the record of an MCP client.
const clientPatience = 3 * time.Second

// sweepEvery is the interval at which a node looks for old sessions. The first time is when the node starts.
const sweepEvery = time.Hour

// endOldSessions removes the records of sessions that have not been used for the time in the configuration. It repeats
// this until ctx ends.
func (f *Fleet) endOldSessions(ctx context.Context) {
	select {
	case <-f.ready: // the sessions are known
	case <-ctx.Done():
		return
	}
	for {
		for key, e := range f.oldSessions() {
			if err := f.endOld(ctx, key, e); err != nil && ctx.Err() == nil {
				f.log.Warn("an old session was not removed, and is tried again", "session", e.Session, "principal", e.Principal, "why", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// keepEvery is the minimum age at which keepEntry writes an entry again.
const keepEvery = 24 * time.Hour

// keepEntry writes the entry of a session that cannot move again, so that the session does not count as old. It does
// not wait for the write, because such sessions must work without the coordinators.
func (f *Fleet) keepEntry(key string, e *directory.Entry) {
	if f.lease.Now().Sub(e.At) < keepEvery {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := f.sessions.Replace(ctx, key, *e); err != nil {
			f.log.Debug("the entry of a session could not be rewritten; the next attempt is made when the session is opened again", "session", e.Session, "why", err)
		}
	}()
}

// oldSessions returns the old sessions that this node should remove. These are its own old sessions. If its name is the
// first among the running nodes, these are also the old sessions of nodes that have ended. The age of an entry counts
// as the age of a session: a session is closed after an hour without calls, and its entry is written again when it is
// opened.
func (f *Fleet) oldSessions() map[string]*directory.Entry {
	before := f.lease.Now().Add(-max(f.host.SessionLife(), 2*idleLife))
	peers, first := f.lease.Peers(), f.node()
	for name, p := range peers {
		if p.Serves() && name < first {
			first = name
		}
	}
	out := make(map[string]*directory.Entry)
	f.sessions.All(func(key string, e *directory.Entry) bool {
		p := peers[e.Owner]
		ended := e.Shared && (p == nil || p.Ended(e.Incarnation))
		if e.At.Before(before) && (e.Owner == f.node() || ended && first == f.node()) {
			out[key] = e
		}
		return true
	})
	return out
}

// endOld removes the records of a session, unless the session is open or its journal has recent records. A call that
// arrives meanwhile waits, and then begins a new session.
func (f *Fleet) endOld(ctx context.Context, key string, e *directory.Entry) error {
	c, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := f.bus.Journal.GetLastMsgForSubject(c, bus.JournalSubject+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return err
	case m.Time.After(f.lease.Now().Add(-f.host.SessionLife())):
		return nil
	}
	release, err := f.hold(key, errors.New("the session was not used for a long time, and begins anew"))
	if err != nil {
		return nil // it is in use
	}
	defer release()
	if e.Owner != f.node() { // first take the session, so that no other node opens it meanwhile
		next := *e
		next.Owner, next.Incarnation, next.Epoch = f.node(), f.lease.Own().Incarnation, e.Epoch+1
		if e, err = f.sessions.Replace(ctx, key, next); err != nil {
			return err
		}
	}
	if err := f.forgetSession(ctx, key, e); err != nil {
		return err
	}
	f.log.Info("a session was removed, because nobody used it", "session", e.Session, "principal", e.Principal, "since", e.At)
	return nil
}

// Repaired is the outcome of a repair.
type Repaired struct {
	// Damage is what was wrong with the journal.
	Damage string `json:"damage"`
	// Unreadable is the number of records that could not be read and were removed.
	Unreadable int `json:"unreadable"`
	// Calls is the number of earlier calls that the session still knows. A repetition of another call runs again.
	Calls int `json:"calls"`
	// Since is the time of the last record about a call that could be read. It is zero without such a record.
	Since time.Time `json:"since,omitzero"`
}

// repair lets a session go on after its journal was damaged. It replaces the journal by a snapshot of everything that
// can still be read. It refuses a session that is in use, and a journal that is whole.
func (f *Fleet) repair(ctx context.Context, key string) (*Repaired, error) {
	release, err := f.hold(key, errors.New("the session is being repaired"))
	if err != nil {
		return nil, fmt.Errorf("%w on %s, so its journal is whole", err, f.node())
	}
	defer release()
	e, err := f.sessions.Read(ctx, key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the directory of the fleet cannot be read: %w", err)
	case e == nil:
		return nil, errors.New("the session is gone")
	case !e.Shared:
		return nil, fmt.Errorf("the session is in a workspace that %s alone has, so it has no journal", e.Owner)
	}
	if p := f.lease.Peer(e.Owner); e.Owner != f.node() && p != nil && !p.Ended(e.Incarnation) {
		return nil, fmt.Errorf("the node %s has the session now. Repeat the command", e.Owner)
	}
	records, damage := journal.Check(ctx, f.bus, key, e.Opened)
	if damage == nil {
		_, _, damage = restored(records)
	}
	switch {
	case damage == nil:
		return nil, errors.New("the journal of the session is whole, so the session can go on as it is")
	case errors.Is(damage, journal.ErrFormat):
		return nil, fmt.Errorf("%w. Nothing is lost: upgrade this node, or let a node of that version take the session", damage)
	case !errors.Is(damage, journal.ErrBroken):
		return nil, damage
	}
	return f.salvage(ctx, key, e, damage)
}

// salvage replaces a damaged journal. The entry is changed first, by compare-and-swap: if another node takes the
// session meanwhile, the repair fails, and a later owner has a later epoch than the snapshot.
func (f *Fleet) salvage(ctx context.Context, key string, e *directory.Entry, damage error) (*Repaired, error) {
	log, records, unreadable, err := journal.Salvage(ctx, f.bus, f.node(), key, e.Epoch)
	if err != nil {
		return nil, err
	}
	next := *e
	next.Epoch, next.Opened = log.Epoch()+1, 0
	if _, err := f.sessions.Replace(ctx, key, next); err != nil {
		if bus.IsConflict(err) {
			return nil, errors.New("another node took the session meanwhile. Repeat the command if the session still cannot go on")
		}
		return nil, fmt.Errorf("the directory of the fleet cannot be changed: %w", err)
	}
	o := &owned{calls: make(map[string]*earlier)}
	o.remember(records, f.lease.Now())
	out := &Repaired{Damage: damage.Error(), Unreadable: unreadable, Calls: len(o.order)}
	var readable []journal.Record
	for i := range records {
		if at := records[i].At; at.After(out.Since) {
			out.Since = at
		}
		if _, _, err := restored(records[i : i+1]); err == nil {
			readable = append(readable, records[i])
		}
	}
	state, lost, err := restored(readable)
	if err != nil {
		return nil, err
	}
	o.nodes, o.unknown = nodesOf(records, ""), unknownState(readable)
	state.Whole = false // as in other snapshots
	snapshot := o.snapshot(state)
	snapshot.Lost = append(snapshot.Lost, lost...)
	if err := log.Append(ctx, snapshot); err != nil {
		return nil, fmt.Errorf("the journal was not repaired: %w. Repeat the command", err)
	}
	if err := log.Trim(ctx); err != nil {
		f.log.Warn("the damaged records of a session were not removed; they are not used any more", "session", e.Session, "why", err)
	}
	f.log.Warn("the journal of a session was repaired", "session", e.Session, "principal", e.Principal, "damage",
		damage, "unreadable records", unreadable, "known calls", out.Calls)
	return out, nil
}

// hold keeps this node from opening a session until the caller calls release. Calls that arrive meanwhile wait, and are
// then refused with the given reason, so that their gateways try again. hold returns an error if the session is in use.
func (f *Fleet) hold(key string, why error) (release func(), err error) {
	o := &owned{key: key, ready: make(chan struct{}), failed: &refusal{reason: moved, err: why}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if used := f.owned[key]; used != nil {
		if !used.isBroken() {
			return nil, errors.New("the session is in use")
		}
		used.drop()
	}
	f.owned[key] = o
	return func() {
		f.mu.Lock()
		delete(f.owned, key)
		f.mu.Unlock()
		close(o.ready)
	}, nil
}
