// Package lease keeps the lease of a node and watches the leases of the other nodes. A node owns sessions only while
// its lease is valid. [Keeper.Join] takes the lease, and [Keeper.Run] renews it.
//
// A lease is a key in the bucket of nodes. The node renews it by compare-and-swap. For the node itself, the lease
// begins when it sent the last confirmed renewal. For the other nodes, the lease begins when they saw this renewal, and
// lasts a quarter longer. So the clocks of the nodes may show different times. It is enough that their speeds differ by
// less than a quarter. Before a node takes sessions of another node, it marks the record of that node as fenced, so
// that a renewal by that node fails.
package lease

import (
	"maps"
	"time"

	"toolhost.dev/host/fleet/internal/surplus"
)

// States of nodes.
const (
	StateReady      = "ready"
	StateDraining   = "draining"
	StateMismatched = "mismatched" // the configuration of the node differs from that of the fleet
	StateLeft       = "left"
)

// Schema is the number of the format of records.
const Schema = 1

// Workspace is a named workspace of a node.
type Workspace struct {
	// Shared is the identity of the files, if several nodes have them. Empty means that only this node has them.
	Shared string `json:"shared,omitempty"`
	Path   string `json:"path"`
}

// Record describes a node to the other nodes.
type Record struct {
	Schema int    `json:"schema"`
	Node   string `json:"node"`
	// Incarnation identifies one run of the node. Sessions belong to an incarnation.
	Incarnation string `json:"incarnation"`
	// Address is where other nodes reach the node, and Certificate is its certificate in DER.
	Address     string `json:"address"`
	Certificate []byte `json:"certificate"`
	// Outward means that no node can connect to this one. It offers connections to the other nodes.
	Outward bool   `json:"outward,omitempty"`
	State   string `json:"state"`
	// Place identifies where the node runs: the machine since its last boot, and the state directory on it.
	Place string `json:"place,omitempty"`
	// Fenced means that the lease has ended and that the node may not renew it. Cut means that the node can no longer
	// change files of its shared workspaces, so that other nodes may take its sessions. The field By names the node
	// that set Fenced.
	Fenced bool   `json:"fenced,omitempty"`
	Cut    bool   `json:"cut,omitempty"`
	By     string `json:"by,omitempty"`
	// Beat counts the renewals of an incarnation.
	Beat  uint64        `json:"beat"`
	Lease time.Duration `json:"lease"`

	Version string `json:"version"`
	// SessionStatements means that the node accepts one signed statement for all calls of a session.
	SessionStatements bool `json:"session_statements,omitempty"`
	// Coordinator is the address of the coordinator on this node. Empty means that this node has no coordinator.
	// CoordinatorAt is the address that a coordinator on this node would have. A node without this address cannot take
	// part in a change of the coordinators.
	Coordinator   string `json:"coordinator,omitempty"`
	CoordinatorAt string `json:"coordinator_at,omitempty"`
	// Config is the digest of the configuration without the settings of the single node.
	Config     string               `json:"config"`
	Labels     map[string]string    `json:"labels,omitempty"`
	Workspaces map[string]Workspace `json:"workspaces"`
	// MaxSessions and MaxCalls are the capacity of the node. Zero means no limit.
	MaxSessions int `json:"max_sessions,omitempty"`
	MaxCalls    int `json:"max_calls,omitempty"`
	// Sessions and Calls are the numbers of sessions and of running calls.
	Sessions int `json:"sessions"`
	Calls    int `json:"calls"`
	// Started is the time at which the incarnation began, by the clock of the node.
	Started time.Time `json:"started"`

	// Unknown contains the fields that a later version of toolhost added.
	Unknown surplus.Fields `json:"-"`
}

func (r *Record) clone() *Record {
	out := *r
	out.Labels, out.Workspaces = maps.Clone(r.Labels), maps.Clone(r.Workspaces)
	return &out
}

// Peer is the last known record of a node.
type Peer struct {
	*Record
	// Revision is the revision of the record. Seen is when this node saw the record, as a time since boot.
	Revision uint64
	Seen     time.Duration
}

// Lives reports whether the node has not left the fleet and was not fenced.
func (p *Peer) Lives() bool { return !p.Fenced && p.State != StateLeft }

// Serves reports whether new sessions can be placed on the node.
func (p *Peer) Serves() bool { return p.State == StateReady && !p.Fenced }

// Ended reports whether other nodes can take the sessions that an incarnation has in shared workspaces. This is so if
// its node was fenced and cut off, has left the fleet, or has begun a new incarnation.
func (p *Peer) Ended(incarnation string) bool {
	return p.Incarnation != incarnation || p.Fenced && p.Cut || p.State == StateLeft
}
