package lease

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/surplus"
)

// watch keeps the known records of all nodes current until ctx ends.
func (k *Keeper) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := k.kv.WatchAll(ctx)
		if err != nil {
			_ = sleep(ctx, 200*time.Millisecond) // the error is ignored: it is that of ctx, and the loop ends with ctx
			continue
		}
		for e := range w.Updates() {
			k.update(e)
		}
	}
}

func (k *Keeper) update(e jetstream.KeyValueEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() {
		close(k.changed)
		k.changed = make(chan struct{})
	}()
	if e == nil {
		k.loaded = true
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		delete(k.peers, e.Key())
		return
	}
	r := new(Record)
	var err error
	if r.Unknown, err = surplus.Decode(e.Value(), r); err != nil {
		k.settings.Log.Error("the record of a node cannot be read", "node", e.Key(), "why", err)
		return
	}
	if e.Key() == k.own.Node {
		k.clock.seen(e.Revision(), e.Created())
	}
	if old := k.peers[e.Key()]; old != nil && old.Revision >= e.Revision() {
		return
	}
	k.learn(e.Key(), &Peer{Record: r, Revision: e.Revision(), Seen: k.settings.Clock()})
}

// Peer returns the last known record of a node, or nil. The node can be this node itself.
func (k *Keeper) Peer(node string) *Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.peers[node]
}

// life is a context that ends when one incarnation of a node ends.
type life struct {
	incarnation string
	ctx         context.Context
	end         context.CancelFunc
}

// Living returns a context that ends when the current incarnation of a node ends. For an unknown node, the context has
// already ended.
func (k *Keeper) Living(node string) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.peers[node]
	if p == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	l := k.living[node]
	if l == nil || l.incarnation != p.Incarnation {
		l = &life{incarnation: p.Incarnation}
		l.ctx, l.end = context.WithCancel(context.Background())
		k.living[node] = l
	}
	if p.Ended(l.incarnation) {
		l.end()
	}
	return l.ctx
}

// learn replaces the record of a node. The caller must hold the lock.
func (k *Keeper) learn(node string, p *Peer) {
	k.peers[node] = p
	if l := k.living[node]; l != nil && p.Ended(l.incarnation) {
		l.end()
	}
}

// Peers returns the records of all nodes.
func (k *Keeper) Peers() map[string]*Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]*Peer, len(k.peers))
	for name, p := range k.peers {
		out[name] = p
	}
	return out
}

// Loaded waits until the records of the other nodes are known.
func (k *Keeper) Loaded(ctx context.Context) error {
	return k.waitUntil(ctx, func() bool { return k.loaded && k.peers[k.own.Node] != nil })
}

// Await waits until ok returns true for the last known record of a node. The record of an unknown node is nil.
func (k *Keeper) Await(ctx context.Context, node string, ok func(*Peer) bool) error {
	return k.waitUntil(ctx, func() bool { return ok(k.peers[node]) })
}

// waitUntil waits until a condition on the known records is met. It calls the function with the lock held.
func (k *Keeper) waitUntil(ctx context.Context, met func() bool) error {
	for {
		k.mu.Lock()
		done, changed := met(), k.changed
		k.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
