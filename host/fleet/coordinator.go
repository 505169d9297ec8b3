package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/coordinator"
	"toolhost.dev/host/fleet/internal/council"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/lease"
)

// fleetFile contains what a new node learned about its fleet.
const fleetFile = "fleet.json"

// known holds what a node learned about its fleet when it joined.
type known struct {
	Name         string   `json:"name"`
	Coordinators []string `json:"coordinators"`
	// Council is the record of the last change of the coordinators. It is nil if they were never changed.
	Council *council.Record `json:"council,omitempty"`
}

func (f *Fleet) readKnown() (k known, err error) {
	b, err := os.ReadFile(filepath.Join(f.dir, fleetFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	return k, err
}

func (f *Fleet) writeKnown(k known) error {
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(f.dir, fleetFile), b)
}

// coordinators returns the addresses of the coordinators. If they were changed while the fleet ran, they are the result
// of the last change. Otherwise, the addresses in the configuration are used, or else the addresses that the node got
// when it joined, or else a single coordinator on this machine.
func (f *Fleet) coordinators() ([]string, error) {
	k, err := f.readKnown()
	if err != nil {
		return nil, fmt.Errorf("what this node knows about its fleet cannot be read: %w", err)
	}
	if k.Council != nil {
		return k.Council.Servers(), nil
	}
	if len(f.settings.Coordinators) > 0 {
		return f.settings.Coordinators, nil
	}
	if len(k.Coordinators) > 0 {
		return k.Coordinators, nil
	}
	k = known{Name: f.settings.Name, Coordinators: []string{f.coordinatorAt()}}
	return k.Coordinators, f.writeKnown(k)
}

// coordinatorAt returns the default address of a coordinator on this node. An outward node has none.
func (f *Fleet) coordinatorAt() string {
	if f.outward != nil {
		return ""
	}
	name, port, _ := net.SplitHostPort(f.address)
	return net.JoinHostPort(name, f.nextPort(port))
}

// nextPort returns the port of the coordinator of a node. Several nodes on one machine have different ports.
func (f *Fleet) nextPort(port string) string {
	if port == defaultPort {
		return coordinatorPort
	}
	n, err := strconv.Atoi(port)
	if err != nil || n >= 65535 {
		return coordinatorPort
	}
	return strconv.Itoa(n + 1)
}

// here returns the address among the coordinators that belongs to this node, or "".
func (f *Fleet) here(coordinators []string) string {
	mine, _, _ := net.SplitHostPort(f.address)
	machine, _ := os.Hostname()
	i := slices.IndexFunc(coordinators, func(a string) bool {
		name, _, _ := net.SplitHostPort(a)
		return name == mine || name == machine || name == f.node()
	})
	if i < 0 {
		return ""
	}
	return coordinators[i]
}

// startCoordinator starts the coordinator of this node if the node is to have one.
func (f *Fleet) startCoordinator(coordinators []string) error {
	f.coordinator = &coordinator.Process{
		Program: filepath.Join(f.opts.Programs, "toolhost-coordinator"), Identity: f.dir, Log: f.log,
	}
	k, err := f.readKnown()
	if err != nil {
		return err
	}
	if r := k.Council; r != nil {
		if err := f.fitsCouncil(r); err != nil {
			return err
		}
		return f.coordinator.Take(r.Role(f.node()))
	}
	address := f.here(coordinators)
	if address == "" || len(coordinators) == 1 && !f.first() {
		return nil
	}
	return f.coordinator.Take(&coordinator.Role{Address: address, All: coordinators})
}

// fitsCouncil compares the configuration of this node with the last change of the coordinators.
func (f *Fleet) fitsCouncil(r *council.Record) error {
	now := r.Servers()
	if len(now) > 1 && f.settings.Lease < host.MinFleetLease {
		return fmt.Errorf("the fleet has %d coordinators, and with several, a lease must not be shorter than %s. Set it: fleet { lease = \"%s\" }", len(now), host.MinFleetLease, host.MinFleetLease)
	}
	if c := f.settings.Coordinators; len(c) > 0 && !r.Changing() &&
		!slices.Equal(slices.Sorted(slices.Values(c)), slices.Sorted(slices.Values(now))) {
		f.log.Warn("the coordinators were changed while the fleet ran, and the configuration of this node names others. The change holds; correct the configuration", "coordinators", now, "configured", c)
	}
	return nil
}

// followCouncil makes this node follow a record of the coordinators, unless it knows a newer one. It can be repeated.
func (f *Fleet) followCouncil(r *council.Record) error {
	if r == nil || len(f.settings.NATS) > 0 {
		return nil
	}
	f.council.Lock()
	defer f.council.Unlock()
	k, err := f.readKnown()
	if err != nil {
		return err
	}
	if old := k.Council; old != nil && old.Serial > r.Serial {
		return fmt.Errorf("this node knows a newer change of the coordinators than the one of %s", r.By)
	} else if old == nil || old.Serial < r.Serial {
		k.Name, k.Coordinators, k.Council = f.settings.Name, r.Servers(), r
		if err := f.writeKnown(k); err != nil {
			return err
		}
	}
	failpoint.At("change of coordinators known")
	if err := f.coordinator.Take(r.Role(f.node())); err != nil {
		return err
	}
	failpoint.At("coordinator follows")
	if !r.Keeps(f.node()) {
		if err := f.coordinator.Discard(); err != nil {
			return err
		}
	}
	f.lease.Update(func(own *lease.Record) { own.Coordinator = f.coordinatorAddress() })
	return f.bus.Follow(r.Servers())
}

func (f *Fleet) coordinatorAddress() string {
	if f.coordinator == nil || f.coordinator.Role() == nil {
		return ""
	}
	return f.coordinator.Role().Address
}

// shareCouncil follows the fleet's record of the coordinators. If the record of this node is newer, it replaces the
// fleet's record. The record of this node is newer if a change was given up while the coordinators did not answer.
func (f *Fleet) shareCouncil(ctx context.Context) error {
	r, revision, err := council.Read(ctx, f.bus.Config)
	if err != nil || len(f.settings.NATS) > 0 {
		return err
	}
	k, err := f.readKnown()
	if err != nil {
		return err
	}
	if own := k.Council; own != nil && (r == nil || r.Serial < own.Serial) && !own.Changing() {
		if r == nil {
			return nil // the coordinators lost their records
		}
		_, _, err := f.changer().Write(ctx, own, revision)
		return err
	}
	return f.followCouncil(r)
}

// pruneCouncil removes servers that are no coordinators any more from the group, if this node has a coordinator.
func (f *Fleet) pruneCouncil(ctx context.Context) error {
	if f.coordinatorAddress() == "" {
		return nil
	}
	if f.coordinatorCount() == 1 {
		return nil
	}
	return f.changer().Prune(ctx, func(ctx context.Context) (*council.Record, error) {
		r, _, err := council.Read(ctx, f.bus.Config)
		if err != nil {
			return nil, err
		}
		k, err := f.readKnown()
		if err == nil && k.Council != nil && r != nil && k.Council.Serial > r.Serial {
			return nil, nil // a server can return an old record
		}
		return r, err
	})
}

// coordinatorCount returns the number of coordinators that this node knows.
func (f *Fleet) coordinatorCount() int {
	all, _ := f.coordinators() // the error is ignored: there is at least one
	return max(len(all), 1)
}

// nodeOfServer returns the node whose coordinator has the given server name. It returns the name itself if no node is
// known.
func (f *Fleet) nodeOfServer(ctx context.Context, server string) string {
	r, _, err := council.Read(ctx, f.bus.Config)
	if err != nil || r == nil {
		return server
	}
	for _, m := range append(slices.Clone(r.Members), r.Next...) {
		if m.Server == server {
			return m.Node
		}
	}
	return server
}

func (f *Fleet) changer() *council.Changer {
	return &council.Changer{
		Bus: f.bus, Log: f.log,
		Living: func() (out []string) {
			for name, p := range f.lease.Peers() {
				if !p.Fenced && p.State != lease.StateLeft && !f.id.HasRevoked(p.Certificate) {
					out = append(out, name)
				}
			}
			return out
		},
		Tell: func(ctx context.Context, node string, r *council.Record) error {
			if node == f.node() {
				return f.followCouncil(r)
			}
			_, err := f.query(ctx, node, opFollow, Arguments{Council: r})
			return err
		},
	}
}

// Coordinators describes the coordinators of a fleet.
type Coordinators struct {
	Members []council.Member `json:"members"`
	// Next contains the coordinators after a change that has not ended. Phase is the current step of this change.
	Next  []council.Member `json:"next,omitempty"`
	Phase council.Phase    `json:"phase,omitempty"`
}

// changeCoordinators adds or removes coordinators, or continues or abandons a change.
func (f *Fleet) changeCoordinators(ctx context.Context, a Arguments) (*Coordinators, error) {
	if len(f.settings.NATS) > 0 {
		return nil, errors.New("the records of this fleet are in an external NATS cluster, so it has no coordinators. Change the cluster with its own tools")
	}
	if a.Change == ChangeAbort {
		if r, err := f.giveUpAlone(ctx); r != nil || err != nil {
			return f.showCoordinators(r, err)
		}
	}
	c := f.changer()
	read := council.Read
	if a.begins() {
		read = council.ReadSettled
	}
	r, revision, err := read(ctx, f.bus.Config)
	if err != nil {
		return nil, err
	}
	switch a.Change {
	case ChangeAdd, ChangeRemove, ChangeReplace:
		if r.Changing() {
			return nil, fmt.Errorf("a change of the coordinators is under way that %s. Complete it, toolhost fleet coordinators resume, or give it up: toolhost fleet coordinators abort", r.Describe())
		}
		if r, err = f.planCouncil(ctx, r, a); err != nil {
			return nil, err
		}
	case ChangeAbort:
		if r == nil {
			r = new(council.Record)
		}
		return f.showCoordinators(c.Abandon(context.WithoutCancel(ctx), r, revision))
	case ChangeResume:
		if !r.Changing() {
			return nil, errors.New("no change of the coordinators is under way. Begin one: toolhost fleet coordinators add or remove")
		}
	}
	if a.begins() {
		if r, revision, err = c.Write(ctx, r, revision); err != nil {
			return nil, err
		}
		failpoint.At("change of coordinators recorded")
	}
	if a.Change == "" {
		return f.showCoordinators(r, nil)
	}
	return f.showCoordinators(c.Run(context.WithoutCancel(ctx), r, revision))
}

// showCoordinators describes the coordinators, or returns an error.
func (f *Fleet) showCoordinators(r *council.Record, err error) (*Coordinators, error) {
	if err != nil {
		return nil, err
	}
	if r == nil {
		members, err := f.members()
		return &Coordinators{Members: members}, err
	}
	return &Coordinators{Members: r.Members, Next: r.Next, Phase: r.Phase}, nil
}

// members returns the coordinators of a fleet that has never changed them.
func (f *Fleet) members() (out []council.Member, err error) {
	all, err := f.coordinators()
	if err != nil {
		return nil, err
	}
	peers := f.lease.Peers()
	for _, address := range all {
		found := ""
		for name, p := range peers {
			if p.Coordinator == address {
				found = name
			}
		}
		if found == "" {
			return nil, fmt.Errorf("no node says that its coordinator is at %s. Start and upgrade the nodes with coordinators first", address)
		}
		out = append(out, council.Member{Node: found, Address: address, Server: found})
	}
	return out, nil
}

// planCouncil returns the first record of a change. It returns an error if the change is not possible.
func (f *Fleet) planCouncil(ctx context.Context, now *council.Record, a Arguments) (*council.Record, error) {
	out := new(council.Record)
	if now != nil {
		*out = *now
	}
	if len(out.Members) == 0 {
		var err error
		if out.Members, err = f.members(); err != nil {
			return nil, err
		}
	}
	out.By, out.Phase = f.node(), council.Prepare
	add, remove, err := a.coordinators()
	if err != nil {
		return nil, err
	}
	peers := f.lease.Peers()
	next := slices.Clone(out.Members)
	for _, node := range remove {
		at := slices.IndexFunc(next, func(m council.Member) bool { return m.Node == node })
		if at < 0 {
			return nil, fmt.Errorf("the node %s has no coordinator. See toolhost fleet coordinators", node)
		}
		next = slices.Delete(next, at, at+1)
	}
	for _, node := range add {
		p := peers[node]
		switch {
		case p == nil:
			return nil, fmt.Errorf("the fleet has no node %q.%s See toolhost fleet status", node, suggest.DidYouMean(node, slices.Collect(maps.Keys(peers))))
		case slices.Contains(council.Nodes(out.Members), node):
			return nil, fmt.Errorf("the node %s has a coordinator already", node)
		case p.Fenced || p.State == lease.StateLeft:
			return nil, fmt.Errorf("the node %s does not run. Start it first", node)
		}
		next = append(next, council.Member{
			Node: node, Address: p.CoordinatorAt, Server: fmt.Sprintf("%s-%d", node, out.Serial+1),
		})
	}
	if err := council.CheckSize(len(out.Members), len(next)); err != nil {
		return nil, err
	}
	out.Next = next
	if err := fitNodes(peers, len(next)); err != nil {
		return nil, err
	}
	want := len(out.Members)
	if a.Change == ChangeReplace && want == 1 {
		return nil, errors.New("the only coordinator cannot be replaced, because the records are nowhere else. Add two nodes, and then remove those that should not keep them: toolhost fleet coordinators add NODE NODE")
	}
	if a.Change == ChangeReplace {
		want = want/2 + 1 // the one that is replaced need not run
	}
	return out, f.allCurrent(ctx, want, len(out.Members))
}

// begins reports whether the operation begins a change of the coordinators.
func (a *Arguments) begins() bool {
	return a.Change == ChangeAdd || a.Change == ChangeRemove || a.Change == ChangeReplace
}

// coordinators returns the nodes that get a coordinator, and those that lose theirs.
func (a *Arguments) coordinators() (add, remove []string, err error) {
	nodes := slices.Compact(slices.Sorted(slices.Values(a.Nodes)))
	switch a.Change {
	case ChangeAdd:
		return nodes, nil, nil
	case ChangeRemove:
		return nil, nodes, nil
	}
	if len(a.Nodes) != 2 || len(nodes) != 2 {
		return nil, nil, errors.New("name two nodes: the one that loses its coordinator, and the one that gets it")
	}
	return a.Nodes[1:], a.Nodes[:1], nil
}

// fitNodes returns an error if a running node cannot follow a change to a number of coordinators.
func fitNodes(peers map[string]*lease.Peer, next int) error {
	for name, p := range peers {
		switch {
		case p.Fenced || p.State == lease.StateLeft:
		case p.CoordinatorAt == "":
			return fmt.Errorf("the node %s runs version %s, which cannot follow a change of the coordinators. Upgrade it first", name, p.Version)
		case next > 1 && p.Lease < host.MinFleetLease:
			return fmt.Errorf("the lease of the node %s is %s, and with several coordinators it must not be shorter than %s, because they can need nine seconds to elect a leader. Set it at all nodes: fleet { lease = \"15s\" }", name, p.Lease, host.MinFleetLease)
		}
	}
	return nil
}

// allCurrent waits until some of all coordinators are current; three of five are always enough. It returns an error if
// the wait is longer than an election takes.
func (f *Fleet) allCurrent(ctx context.Context, want, all int) error {
	for end := time.Now().Add(bus.ElectionTime); ; {
		st := new(Status)
		f.coordinatorStatus(ctx, st)
		if st.Current >= min(want, 3) {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("%d of %d coordinators are current. Start the others first, so that no record is lost", st.Current, all)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// giveUpAlone abandons a change from one coordinator to several, if the new coordinators do not answer and the single
// one is on this node. In the phase Convert, this node has the only copy of all records. giveUpAlone returns nil if
// another way to abandon the change must be used.
func (f *Fleet) giveUpAlone(ctx context.Context) (*council.Record, error) {
	k, err := f.readKnown()
	if err != nil || k.Council == nil || k.Council.Phase != council.Convert || len(k.Council.Members) != 1 ||
		k.Council.Members[0].Node != f.node() {
		return nil, err
	}
	if _, _, err := council.Read(ctx, f.bus.Config); err == nil {
		return nil, nil //nolint:nilnil // the coordinators answer, so they can decide
	}
	r, err := k.Council.GiveUp()
	if err != nil {
		return nil, err
	}
	r.Serial++
	if err := f.followCouncil(r); err != nil {
		return nil, err
	}
	return r, bus.UntilAnswered(ctx, f.shareCouncil)
}

// first reports whether this node began the fleet.
func (f *Fleet) first() bool {
	_, err := os.Stat(filepath.Join(f.dir, "ca.key"))
	return err == nil
}
