// Package council changes the coordinators of a running fleet. [Changer.Run] carries out a change in steps, and each
// step can be repeated. A [Record] contains the current step. Each node reads its own part from it with [Record.Role].
package council

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/fleet/internal/coordinator"
	"toolhost.dev/host/fleet/internal/surplus"
)

// Schema is the number of the format of records.
const Schema = 1

// Phase is a step of a change.
type Phase string

// These are the phases of a change. A change that adds coordinators has the phases Prepare and Copy, and Convert
// between them if there was only one coordinator. A change that removes coordinators has the phases Prepare and Copy,
// and then Convert if only one coordinator stays. A change that replaces coordinators has the phases Prepare and Copy.
const (
	Prepare Phase = "prepare" // the nodes learn the addresses, and new coordinators start
	Convert Phase = "convert" // a store for a single coordinator becomes a store for several, or the other way around
	Copy    Phase = "copy"    // the number of copies of all records changes
)

// Member is a coordinator.
type Member struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	// Server is the name of the coordinator for the other coordinators. It differs from the name of an earlier
	// coordinator on the same node, because the others refuse a removed name for some minutes.
	Server string `json:"server"`
}

// Record describes the coordinators of a fleet, and a change of them.
type Record struct {
	Schema int `json:"schema"`
	// Serial counts the versions of the record. A node follows the version with the highest number that it has seen.
	Serial uint64 `json:"serial"`
	// Members are the coordinators. Next are the coordinators after the change, or empty without a change.
	Members []Member  `json:"members"`
	Next    []Member  `json:"next,omitempty"`
	Phase   Phase     `json:"phase,omitempty"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`

	// Unknown contains the fields that a later version of toolhost added.
	Unknown surplus.Fields `json:"-"`
}

// Changing reports whether a change is under way.
func (r *Record) Changing() bool { return r != nil && len(r.Next) > 0 }

// grows reports whether the change adds coordinators.
func (r *Record) grows() bool { return len(r.Next) > len(r.Members) }

// replaces reports whether the change puts new coordinators in the place of others.
func (r *Record) replaces() bool { return r.Changing() && len(r.Next) == len(r.Members) }

func addresses(all []Member) (out []string) {
	for _, m := range all {
		out = append(out, m.Address)
	}
	return out
}

// Nodes returns the names of the nodes of members.
func Nodes(all []Member) (out []string) {
	for _, m := range all {
		out = append(out, m.Node)
	}
	slices.Sort(out)
	return out
}

func find(all []Member, node string) *Member {
	i := slices.IndexFunc(all, func(m Member) bool { return m.Node == node })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// without returns the members that are not among others.
func without(all, others []Member) (out []Member) {
	for _, m := range all {
		if find(others, m.Node) == nil {
			out = append(out, m)
		}
	}
	return out
}

// Servers returns the addresses at which nodes connect. New coordinators refuse nodes until they have the records.
func (r *Record) Servers() []string {
	if !r.grows() && len(r.Next) == 1 && r.Phase == Convert { // the other coordinators no longer have records
		return addresses(r.Next)
	}
	return addresses(append(slices.Clone(r.Members), without(r.Next, r.Members)...))
}

// Role returns the role of the coordinator of a node, or nil if the node has none.
func (r *Record) Role(node string) *coordinator.Role {
	m := find(r.Members, node)
	switch {
	case m == nil && r.Changing():
		if m = find(r.Next, node); m == nil {
			return nil
		}
		return r.role(m, r.Next, true)
	case m == nil:
		return nil
	case !r.Changing():
		return r.role(m, r.Members, false)
	case r.grows():
		if len(r.Members) == 1 && r.Phase == Prepare {
			return r.role(m, r.Members, false)
		}
		return r.role(m, r.Next, false)
	case r.Phase == Prepare:
		return r.role(m, r.Members, false)
	case len(r.Next) == 1 && r.Phase == Convert && find(r.Next, node) != nil:
		return r.role(m, r.Next, false)
	case len(r.Next) > 1 && find(r.Next, node) == nil: // the other coordinators remove this one after it has stopped
		return nil
	}
	return r.role(m, r.Members, false)
}

func (r *Record) role(m *Member, all []Member, await bool) *coordinator.Role {
	return &coordinator.Role{Address: m.Address, All: addresses(all), Server: m.Server, Await: await, Convert: true}
}

// Keeps reports whether a node must keep the store of its coordinator.
func (r *Record) Keeps(node string) bool {
	return find(r.Members, node) != nil || find(r.Next, node) != nil
}

// CheckSize returns an error if a fleet cannot have a number of coordinators.
func CheckSize(now, next int) error {
	switch {
	case next == 1 || next == 3 || next == 5:
		return nil
	case next < 1:
		return errors.New("a fleet needs a coordinator: keep 1, 3 or 5 of them")
	case next == 2 && now == 1:
		return errors.New("a fleet cannot have 2 coordinators, because neither can go on without the other. Name two nodes, so that it has 3: toolhost fleet coordinators add NODE NODE")
	case next == 2:
		return errors.New("a fleet cannot have 2 coordinators, because neither can go on without the other. Keep 3, or remove all but one")
	case next == 4 && now < 4:
		return errors.New("a fleet cannot have 4 coordinators, because 4 survive no more losses than 3. Name one node more, so that it has 5, or stay with 3")
	case next == 4:
		return errors.New("a fleet cannot have 4 coordinators, because 4 survive no more losses than 3. Name one node more, so that it has 3")
	}
	return fmt.Errorf("a fleet cannot have %d coordinators: have 1, 3 or 5 of them. More make each record slower and little safer", next)
}

// Describe returns what a change does.
func (r *Record) Describe() string {
	if r.grows() {
		return "adds " + strings.Join(Nodes(without(r.Next, r.Members)), ", ")
	}
	if r.replaces() {
		return "replaces " + strings.Join(Nodes(without(r.Members, r.Next)), ", ") + " with " +
			strings.Join(Nodes(without(r.Next, r.Members)), ", ")
	}
	return "removes " + strings.Join(Nodes(without(r.Members, r.Next)), ", ")
}

// errComplete is the error of a change that can only be completed.
var errComplete = errors.New("this change cannot be given up any more, because coordinators have stopped already. Complete it: toolhost fleet coordinators resume")

// GiveUp returns the record that undoes a change. If streams may already have copies on new coordinators, this record
// is a change that removes these coordinators.
func (r *Record) GiveUp() (*Record, error) {
	out := *r
	switch {
	case !r.Changing():
		return nil, errors.New("the coordinators are not being changed")
	case r.Phase == Prepare, r.replaces(), r.grows() && r.Phase == Convert: // the members have copies of everything
		out.Next, out.Phase = nil, ""
	case r.grows():
		out.Members, out.Next, out.Phase = r.Next, r.Members, Prepare
	default:
		return nil, errComplete
	}
	return &out, nil
}
