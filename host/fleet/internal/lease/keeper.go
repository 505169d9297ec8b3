package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/surplus"
)

// Settings configures the lease of a node.
type Settings struct {
	// Lease is the time for which a renewal is valid.
	Lease time.Duration
	// Manual means that only an operator decides that another node has ended, and never this node.
	Manual bool
	// Fence is a command that cuts a node off from the shared files. The last argument of the command is the name of
	// the node. The command must succeed before other nodes take the node's sessions. Empty means that no command is
	// run.
	Fence []string
	// Clock returns the time since boot, including the time during which the machine was suspended.
	Clock func() time.Duration
	// Renewed is called with the new end of the lease, as a time since boot. Lost is called when the lease has ended.
	Renewed func(end time.Duration)
	Lost    func()
	// Whole returns an error if the coordinators have lost the records. The node then needs a restart. Nil means that
	// the records are not checked.
	Whole func(context.Context) error
	Log   *slog.Logger
}

// Keeper keeps the lease of a node. It is safe for concurrent use.
type Keeper struct {
	kv       jetstream.KeyValue
	settings Settings
	dirty    chan struct{} // receives a value when this node's record has changed
	failures int           // renewals that failed in a row; only Run uses the field
	rejoin   bool          // whether the lease must be taken again with Join; only Run uses the field
	told     bool          // whether it was logged that the records are lost; only Run uses the field
	clock    serverClock

	mu       sync.Mutex
	own      *Record
	revision uint64
	end      time.Duration // end of the lease; zero without a lease
	context  context.Context
	cancel   context.CancelFunc
	peers    map[string]*Peer
	living   map[string]*life // by node
	loaded   bool             // whether the watcher has delivered all existing records
	changed  chan struct{}
	left     bool
}

// New returns the keeper of a node. The record describes the node.
func New(kv jetstream.KeyValue, own Record, s Settings) *Keeper {
	own.Schema, own.Lease, own.Fenced, own.Cut = Schema, s.Lease, false, false
	k := &Keeper{kv: kv, settings: s, own: &own, peers: make(map[string]*Peer), living: make(map[string]*life),
		dirty: make(chan struct{}, 1), changed: make(chan struct{})}
	k.begin()
	return k
}

// begin starts a new incarnation. The caller must hold the lock, or be the only user of the keeper.
func (k *Keeper) begin() {
	if k.cancel != nil {
		k.cancel()
	}
	k.own.Incarnation, k.own.Beat, k.own.Started = rand.Text()[:16], 0, time.Now()
	k.end = 0
	k.context, k.cancel = context.WithCancel(context.Background())
}

// NameTakenError means that another running node already has the name of this node.
type NameTakenError struct {
	Node, Address string
	// Copy means that the other node runs with a copy of this node's key.
	Copy bool
}

func (e *NameTakenError) Error() string {
	if e.Copy {
		return fmt.Sprintf("the node %s runs with the same key at %s: this is a copy of its state directory, or its machine was cloned. Stop one of them; to make this one a node of its own, remove the directory fleet in its state directory and join again", e.Node, e.Address)
	}
	return fmt.Sprintf("a node named %s is in the fleet already, at %s. Give this node another name: fleet { node = … }, or stop the other one and try again", e.Node, e.Address)
}

// Join takes the lease of the node. It returns a [*NameTakenError] if a node of this name, or a copy of this node, runs
// at another place. The process must hold the lock of the node's state directory, so that an earlier run of the node at
// this place has ended.
func (k *Keeper) Join(ctx context.Context) error {
	first := time.Duration(0)
	var seen uint64
	for {
		var e jetstream.KeyValueEntry
		err := bus.UntilAnswered(ctx, func(ctx context.Context) (err error) {
			c, cancel := context.WithTimeout(ctx, 3*bus.TryTimeout)
			defer cancel()
			e, err = k.kv.Get(c, k.own.Node)
			return err
		})
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			k.setRevision(0)
		case err != nil:
			return fmt.Errorf("the records of the nodes cannot be read: %w", err)
		default:
			var other Record
			if err := json.Unmarshal(e.Value(), &other); err != nil {
				return fmt.Errorf("the record of the node %s cannot be read: %w", k.own.Node, err)
			}
			if other.Fenced && !other.Cut && !k.isEarlierRun(&other) { // a new incarnation would end the wait for the command
				return fmt.Errorf("another node named %s is fenced, and the command that cuts it off has not succeeded yet. Mend the command; the log of %s says why it failed", other.Node, other.By)
			}
			living := !other.Fenced && other.State != StateLeft && !k.isEarlierRun(&other)
			if living && e.Revision() != seen {
				if seen != 0 {
					return &NameTakenError{Node: other.Node, Address: other.Address,
						Copy: bytes.Equal(other.Certificate, k.own.Certificate)}
				}
				seen, first = e.Revision(), k.settings.Clock()
			}
			if living && k.settings.Clock()-first < other.Lease*5/4 {
				if err := sleep(ctx, max(other.Lease/6, 200*time.Millisecond)); err != nil {
					return err
				}
				continue
			}
			k.setRevision(e.Revision())
		}
		err = bus.UntilAnswered(ctx, k.renew) // if a server stored the record and did not answer, the next attempt is a conflict
		if !bus.IsConflict(err) {
			return err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// isEarlierRun reports whether a record is from an earlier run of this node at the same place. A record with the same
// certificate and another place is from a copy of the node, or from the node before its state was moved.
func (k *Keeper) isEarlierRun(other *Record) bool {
	return bytes.Equal(other.Certificate, k.own.Certificate) && other.Place == k.own.Place
}

func (k *Keeper) setRevision(r uint64) {
	k.mu.Lock()
	k.revision = r
	k.mu.Unlock()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Run renews the lease, watches the other nodes, and fences those whose leases have ended. It returns when ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { k.watch(ctx) })
	all.Go(func() { k.guard(ctx) })
	all.Go(func() { k.fenceOthers(ctx) })
	for {
		select {
		case <-ctx.Done():
		case <-k.dirty:
		case <-time.After(k.settings.Lease / 6):
		}
		if ctx.Err() != nil {
			break
		}
		if k.rejoin {
			k.joinAgain(ctx)
			continue
		}
		k.renewOrBegin(ctx)
	}
	all.Wait()
}

// renewOrBegin renews the lease. If another node has fenced this node, renewOrBegin begins a new incarnation.
func (k *Keeper) renewOrBegin(ctx context.Context) {
	err := k.renew(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		k.failures = 0
		return
	case !bus.IsConflict(err):
		if k.failures++; k.failures == 1 || k.failures%repeatWarning == 0 {
			k.settings.Log.Warn("the lease of this node was not renewed", "why", err, "tries", k.failures)
		}
		if k.failures%checkRecords == 0 {
			k.isWhole(ctx)
		}
		return
	}
	c, cancel := context.WithTimeout(ctx, bus.TryTimeout)
	defer cancel()
	e, err := k.kv.Get(c, k.own.Node)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // an operator removed the node from the list
		k.mu.Lock()
		defer k.mu.Unlock()
		k.settings.Log.Warn("the record of this node was removed, and it begins anew")
		k.lose()
		k.rejoin = true
		k.touch()
		return
	}
	if err != nil {
		return
	}
	var now Record
	if json.Unmarshal(e.Value(), &now) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revision = e.Revision()
	if k.isEarlierRun(&now) && !now.Fenced { // this node wrote the record, but the confirmation was lost
		k.touch()
		return
	}
	if now.Fenced {
		k.settings.Log.Warn("this node was taken for dead, and begins anew", "by", now.By)
	} else {
		k.settings.Log.Error("another process renewed the lease of this node, and this one begins anew", "at", now.Address)
	}
	k.lose()
	k.rejoin = true
	k.touch()
}

// joinAgain takes the lease for a new incarnation, unless another process has it.
func (k *Keeper) joinAgain(ctx context.Context) {
	if !k.isWhole(ctx) {
		_ = sleep(ctx, k.settings.Lease/6) // the error is ignored: it is that of ctx, and the loop ends with ctx
		return
	}
	err := k.Join(ctx)
	if err == nil {
		k.rejoin = false
		return
	}
	if k.failures++; k.failures == 1 || k.failures%repeatWarning == 0 {
		k.settings.Log.Error("this node cannot take its lease again", "why", err)
	}
}

// isWhole reports whether the coordinators still have the records with which the node joined. With other records, the
// node would mistake the old entries in its memory for new ones.
func (k *Keeper) isWhole(ctx context.Context) bool {
	if k.settings.Whole == nil {
		return true
	}
	err := k.settings.Whole(ctx)
	if errors.Is(err, bus.ErrRecordsLost) && !k.told {
		k.told = true
		k.settings.Log.Error("this node runs no calls of shared workspaces", "why", err)
	}
	return err == nil
}

// checkRecords is the number of failed renewals after which the keeper checks the records.
const checkRecords = 3

// repeatWarning is the number of failed renewals after which the warning is repeated.
const repeatWarning = 60

// touch makes Run renew the lease at once.
func (k *Keeper) touch() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// lose ends the incarnation. The caller must hold the lock.
func (k *Keeper) lose() {
	k.cancel()
	k.settings.Lost()
	k.begin()
}

// renew writes this node's record. The renewed lease begins at the time before the write.
func (k *Keeper) renew(ctx context.Context) error {
	k.mu.Lock()
	if k.left {
		k.mu.Unlock()
		return nil
	}
	k.own.Beat++
	b, err := surplus.Encode(k.own, k.own.Unknown)
	revision, incarnation := k.revision, k.own.Incarnation
	k.mu.Unlock()
	if err != nil {
		return err
	}
	sent := k.settings.Clock()
	c, cancel := context.WithTimeout(ctx, max(bus.TryTimeout, k.settings.Lease/6))
	defer cancel()
	var now uint64
	if revision == 0 { // Create also replaces a record that was removed
		now, err = k.kv.Create(c, k.own.Node, b)
	} else {
		now, err = k.kv.Update(c, k.own.Node, b, revision)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock.confirmed(now, k.settings.Clock())
	k.revision = now
	if k.own.Incarnation != incarnation {
		return nil
	}
	if k.end != 0 && k.settings.Clock() > k.end { // the lease had ended before the confirmation arrived
		k.lose()
		k.touch()
		return nil
	}
	k.end = sent + k.settings.Lease
	k.settings.Renewed(k.end)
	return nil
}

// guard ends the incarnation when the lease ends.
func (k *Keeper) guard(ctx context.Context) {
	for {
		k.mu.Lock()
		left := k.settings.Lease / 6
		if k.end != 0 {
			left = k.end - k.settings.Clock()
			if left <= 0 {
				k.settings.Log.Error("the lease of this node has ended, because the coordinators did not confirm it; its shared sessions end")
				k.lose()
				left = k.settings.Lease / 6
			}
		}
		k.mu.Unlock()
		if sleep(ctx, max(min(left, k.settings.Lease/6), time.Millisecond)) != nil {
			return
		}
	}
}

// Update changes this node's record and renews the lease at once.
func (k *Keeper) Update(f func(*Record)) {
	k.mu.Lock()
	f(k.own)
	k.mu.Unlock()
	k.touch()
}

// Count sets the numbers of sessions and calls in this node's record. The other nodes see them after the next renewal.
func (k *Keeper) Count(sessions, calls int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own.Sessions, k.own.Calls = sessions, calls
}

// Own returns a copy of this node's record.
func (k *Keeper) Own() *Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.own.clone()
}

// Valid reports whether the lease is valid, and for how long.
func (k *Keeper) Valid() (left time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left = k.end - k.settings.Clock()
	return max(left, 0), k.end != 0 && left > 0
}

// Incarnation returns the current incarnation and a context that ends with its lease. The result ok is false if the
// lease is not valid.
func (k *Keeper) Incarnation() (incarnation string, ctx context.Context, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.own.Incarnation, k.context, k.end != 0 && k.settings.Clock() < k.end
}

// Now returns the time by the clock of the coordinators. So all nodes agree on this time even if their own clocks
// differ. Before the first renewal, Now returns the time by the clock of this machine.
func (k *Keeper) Now() time.Time {
	return k.clock.now(k.settings.Clock())
}

// Leave records that the node has ended all its sessions. It must be called after the last use of the sessions.
func (k *Keeper) Leave(ctx context.Context) error {
	k.mu.Lock()
	k.own.State = StateLeft
	k.mu.Unlock()
	err := k.renew(ctx)
	if bus.IsConflict(err) && k.adopt(ctx) { // the last renewal by Run was interrupted, but it had changed the record
		err = k.renew(ctx)
	}
	k.mu.Lock()
	k.left = true
	k.mu.Unlock()
	return err
}

// adopt reads the revision of this node's record from the bucket. It reports whether the record still belongs to this
// incarnation.
func (k *Keeper) adopt(ctx context.Context) bool {
	e, err := k.kv.Get(ctx, k.own.Node)
	if err != nil {
		return false
	}
	var now Record
	if json.Unmarshal(e.Value(), &now) != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Fenced || now.Incarnation != k.own.Incarnation {
		return false
	}
	k.revision = e.Revision()
	return true
}

// Forget removes the record of a node that has ended. Without the record, other nodes take the sessions of the node. So
// a fenced node must be cut off first.
func (k *Keeper) Forget(ctx context.Context, node string) error {
	p := k.Peer(node)
	switch {
	case p == nil:
		return fmt.Errorf("there is no node %s", node)
	case !p.Fenced && p.State != StateLeft:
		return fmt.Errorf("the node %s runs. Stop it first: toolhost fleet drain %s", node, node)
	case p.State != StateLeft && !p.Cut:
		return fmt.Errorf("the command that cuts %s off has not succeeded yet, so its sessions wait. Mend the command; the log of %s says why it failed. If %s certainly cannot change shared files any more: toolhost fleet takeover %s --i-have-fenced-it", node, p.By, node, node)
	}
	return k.kv.Delete(ctx, node, jetstream.LastRevision(p.Revision))
}
