package lease

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"toolhost.dev/sdk/child"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/surplus"
)

// fenceOthers fences the nodes whose leases have ended, each on its own: a command that hangs for one node must not
// delay the others.
func (k *Keeper) fenceOthers(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	var busy sync.Map // names of the nodes that are being fenced
	for sleep(ctx, max(k.settings.Lease/60, 50*time.Millisecond)) == nil {
		if _, ok := k.Valid(); !ok {
			continue
		}
		for _, p := range k.overdue() {
			if _, running := busy.LoadOrStore(p.Node, nil); running {
				continue
			}
			all.Go(func() {
				defer busy.Delete(p.Node)
				k.fenceOne(ctx, p)
			})
		}
	}
}

// fenceOne fences a node whose lease has ended, or cuts it off if it is fenced already.
func (k *Keeper) fenceOne(ctx context.Context, p Peer) {
	if p.Fenced {
		if !p.Cut && k.cuts(&p) { // an earlier run of the command failed, or the node that ran the command has ended
			_ = k.cut(ctx, p)
		}
		return
	}
	if err := k.Fence(ctx, p.Node, p.Revision); err != nil && !bus.IsConflict(err) {
		k.settings.Log.Warn("a node whose lease has ended cannot be fenced", "node", p.Node, "why", err)
	}
}

func (k *Keeper) overdue() (out []Peer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.settings.Clock()
	for name, p := range k.peers {
		if name == k.own.Node || p.State == StateLeft || p.Fenced && p.Cut || k.settings.Manual && !p.Fenced {
			continue
		}
		if p.Fenced || now-p.Seen > p.Lease*5/4 {
			out = append(out, *p)
		}
	}
	return out
}

// cuts reports whether this node must cut a fenced node off. This is the task of the node that fenced the other node.
// If the fencing node has ended, it is the task of the living node with the first name.
func (k *Keeper) cuts(p *Peer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if by := k.peers[p.By]; by != nil && by.Lives() {
		return p.By == k.own.Node
	}
	for name, other := range k.peers {
		if name < k.own.Node && name != p.Node && other.Lives() {
			return false
		}
	}
	return true
}

// Fence marks a node as ended. The argument revision is the revision of the node's record that the caller saw, or 0 for
// the last known revision. If the record has changed since, Fence does nothing. An operator who requests this asserts
// that the node has ended; see [Keeper.TakeOver].
func (k *Keeper) Fence(ctx context.Context, node string, revision uint64) error {
	k.mu.Lock()
	p := k.peers[node]
	if p == nil {
		k.mu.Unlock()
		return fmt.Errorf("there is no node %s", node)
	}
	peer := Peer{Record: p.clone(), Revision: p.Revision, Seen: p.Seen}
	k.mu.Unlock()
	if revision != 0 && peer.Revision != revision {
		return nil // it was renewed meanwhile
	}
	peer.Fenced, peer.By, peer.Cut = true, k.own.Node, len(k.settings.Fence) == 0
	if err := k.write(ctx, &peer); err != nil {
		return err
	}
	k.settings.Log.Warn("a node is taken for dead: it did not renew its lease", "node", node)
	failpoint.At("node fenced")
	if peer.Cut {
		return nil
	}
	return k.cut(ctx, peer)
}

// TakeOver lets other nodes take the sessions of a node, because an operator asserts that the node cannot change shared
// files any more. If there is a command that cuts the node off, TakeOver runs it, but does not require that it
// succeeds.
func (k *Keeper) TakeOver(ctx context.Context, node string) error {
	if p := k.Peer(node); p != nil && p.Fenced && p.Cut {
		return nil
	}
	err := k.Fence(ctx, node, 0)
	p := k.Peer(node)
	switch {
	case err == nil || p == nil || !p.Fenced || ctx.Err() != nil:
		return err
	case p.Cut: // a try that this node made in the background has succeeded
		return nil
	}
	k.settings.Log.Warn("an operator asserts that the node cannot change shared files any more, so its sessions can be taken although the command failed", "node", node)
	return k.setCut(ctx, *p)
}

// cut runs the command that cuts a fenced node off from the files. Other nodes can take the sessions of the fenced node
// only after the command succeeded.
func (k *Keeper) cut(ctx context.Context, p Peer) error {
	c, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if out, err := k.runFence(c, p.Node); err != nil {
		k.settings.Log.Error("the command that cuts a node off failed; its sessions are not taken", "node", p.Node, "why", err, "output", out[:min(len(out), 2000)])
		_ = sleep(ctx, k.settings.Lease/3) // before the next try
		return fmt.Errorf("the command that cuts %s off failed: %w", p.Node, err)
	}
	failpoint.At("node cut off")
	return k.setCut(ctx, p)
}

// runFence runs the command that cuts a node off, and returns its output. What the command started ends with it.
func (k *Keeper) runFence(ctx context.Context, node string) (output string, err error) {
	args := append(append([]string{}, k.settings.Fence[1:]...), node)
	command := exec.CommandContext(ctx, k.settings.Fence[0], args...) //nolint:gosec // the operator's command
	command.WaitDelay = time.Second                                   // a process that it started can keep its output open
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	running, err := child.Start(command)
	if err != nil {
		return "", err
	}
	<-running.Exited()
	return out.String(), running.Err()
}

func (k *Keeper) setCut(ctx context.Context, p Peer) error {
	done := Peer{Record: p.clone(), Revision: p.Revision}
	done.Cut = true
	return k.write(ctx, &done)
}

// write replaces the record of another node.
func (k *Keeper) write(ctx context.Context, p *Peer) error {
	b, err := surplus.Encode(p.Record, p.Unknown)
	if err != nil {
		return err
	}
	c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
	defer cancel()
	revision, err := k.kv.Update(c, p.Node, b, p.Revision)
	if err != nil {
		return err
	}
	p.Revision = revision
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.peers[p.Node]; old == nil || old.Revision < revision {
		k.learn(p.Node, &Peer{Record: p.Record, Revision: revision, Seen: k.settings.Clock()})
	}
	return nil
}
