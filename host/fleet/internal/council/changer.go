package council

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/surplus"
)

// Key is the key of the record in the bucket of the configuration.
const Key = "coordinators"

// Read returns the record of the coordinators, or nil if they were never changed.
func Read(ctx context.Context, kv jetstream.KeyValue) (r *Record, revision uint64, err error) {
	c, cancel := context.WithTimeout(ctx, 3*bus.TryTimeout)
	defer cancel()
	e, err := kv.Get(c, Key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the record of the coordinators cannot be read: %w", err)
	}
	r = new(Record)
	if r.Unknown, err = surplus.Decode(e.Value(), r); err != nil {
		return nil, 0, fmt.Errorf("the record of the coordinators cannot be read: %w", err)
	}
	if r.Schema > Schema {
		return nil, 0, fmt.Errorf("the record of the coordinators has format %d, and this version of toolhost reads %d. Upgrade this node", r.Schema, Schema)
	}
	return r, e.Revision(), nil
}

// staleTime is how long a server can return a record that is older than the last one that a majority has.
const staleTime = time.Second

// ReadSettled is Read before a new change. It reads a record with an unfinished change again for staleTime, because the
// server that answers can lag behind the end of the change before.
func ReadSettled(ctx context.Context, kv jetstream.KeyValue) (r *Record, revision uint64, err error) {
	for end := time.Now().Add(staleTime); ; {
		r, revision, err = Read(ctx, kv)
		if err != nil || !r.Changing() || time.Now().After(end) {
			return r, revision, err
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(staleTime / 10):
		}
	}
}

// Changer carries out a change. The fields must not change after the first call of a method.
type Changer struct {
	Bus *bus.Bus
	Log *slog.Logger
	// Living returns the nodes that run, and Tell makes one of them follow a record.
	Living func() []string
	Tell   func(ctx context.Context, node string, r *Record) error
}

// Times of a change.
const (
	tellTimeout  = time.Minute
	writeTimeout = 30 * time.Second
	groupTimeout = time.Minute
	copyTimeout  = 10 * time.Minute
	pause        = 100 * time.Millisecond
)

// Write replaces the record, and returns it with its new serial number and revision. It returns an error if another
// change has replaced the record meanwhile.
func (c *Changer) Write(ctx context.Context, r *Record, revision uint64) (*Record, uint64, error) {
	next := *r
	next.Schema, next.Serial, next.At = Schema, r.Serial+1, time.Now()
	b, err := surplus.Encode(&next, next.Unknown)
	if err != nil {
		return nil, 0, err
	}
	err = repeat(ctx, writeTimeout, func(ctx context.Context) (err error) {
		if revision == 0 {
			revision, err = c.Bus.Config.Create(ctx, Key, b)
		} else {
			revision, err = c.Bus.Config.Update(ctx, Key, b, revision)
		}
		if !bus.IsConflict(err) {
			return err
		}
		now, at, readErr := Read(ctx, c.Bus.Config) // an earlier try can have succeeded
		if readErr != nil {
			return readErr
		}
		if now != nil && now.Serial == next.Serial && now.At.Equal(next.At) {
			revision = at
			return nil
		}
		return final{errors.New("another change of the coordinators goes on. See toolhost fleet coordinators")}
	})
	return &next, revision, err
}

// final is an error after which nothing is tried again.
type final struct{ error }

// repeat repeats a step until it succeeds, or the time is over.
func repeat(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		c, end := context.WithTimeout(ctx, 3*bus.TryTimeout)
		err := step(c)
		end()
		var last final
		if err == nil || errors.As(err, &last) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Run carries out the rest of a change, starting at the phase of the record, and returns the last record. The argument
// "revision" must be the revision of the record. Run does not read the record again, because a server can return an
// older one. After an error, Run can be called again. If new coordinators cannot be started, Run abandons the change.
func (c *Changer) Run(ctx context.Context, r *Record, revision uint64) (*Record, error) {
	for r.Changing() {
		next, err := c.step(ctx, r)
		if err != nil && r.Phase == Prepare && (r.grows() || r.replaces()) {
			_, undone := c.Abandon(ctx, r, revision)
			return nil, errors.Join(err, undone)
		}
		if err != nil {
			return nil, fmt.Errorf("%w. Complete the change, toolhost fleet coordinators resume, or give it up: toolhost fleet coordinators abort", err)
		}
		if r, revision, err = c.Write(ctx, next, revision); err != nil {
			return nil, err
		}
		failpoint.At("change of coordinators recorded")
	}
	if err := c.tell(ctx, r, c.Living()); err != nil {
		c.Log.Warn("some nodes did not get the record of the new coordinators. They read it later", "why", err)
	}
	return r, nil
}

// Abandon abandons a change, and returns the last record. The argument "revision" must be the revision of the record.
func (c *Changer) Abandon(ctx context.Context, r *Record, revision uint64) (*Record, error) {
	back, err := r.GiveUp()
	if err != nil {
		return nil, err
	}
	if r.replaces() && r.Phase == Copy && c.haveLeft(ctx, without(r.Members, r.Next)) {
		back.Members = r.Next
	}
	if back, revision, err = c.Write(ctx, back, revision); err != nil {
		return nil, err
	}
	failpoint.At("change of coordinators recorded")
	return c.Run(ctx, back, revision)
}

// haveLeft reports whether servers are no longer in the group. Such a server cannot join again under its name, so a
// replacement has to stay as it is. If the group does not answer, it has no majority. Then the servers are still in it,
// and a majority needs them.
func (c *Changer) haveLeft(ctx context.Context, members []Member) bool {
	var group []bus.Peer
	err := repeat(ctx, writeTimeout, func(ctx context.Context) (err error) {
		group, err = c.Bus.Group(ctx)
		return err
	})
	return err == nil && !slices.ContainsFunc(group, func(p bus.Peer) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return p.Is(m.Server) })
	})
}

// Prune removes servers from the group that are no coordinators of the record and do not run. They would count for a
// majority. Such a server remains when a change was given up after it had started, or when a lost node comes back.
// While a change is under way, Prune does nothing. The function "read" returns the record. Prune reads the group first:
// every server in the group is then a member of the record, unless it is left over.
func (c *Changer) Prune(ctx context.Context, read func(context.Context) (*Record, error)) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	group, err := c.Bus.Group(ctx)
	if err != nil {
		return err
	}
	r, err := read(ctx)
	if err != nil || r == nil || r.Changing() {
		return err
	}
	return c.remove(ctx, group, r.Members)
}

// keepOnly removes all servers from the group that do not run and are not among members.
func (c *Changer) keepOnly(ctx context.Context, members []Member) error {
	group, err := c.Bus.Group(ctx)
	if err != nil {
		return err
	}
	return c.remove(ctx, group, members)
}

// remove removes those servers of a group that do not run and are not among members.
func (c *Changer) remove(ctx context.Context, group []bus.Peer, members []Member) error {
	for _, p := range group {
		if p.Runs() || slices.ContainsFunc(members, func(m Member) bool { return p.Is(m.Server) }) {
			continue
		}
		if err := c.Bus.RemoveServer(ctx, p.ID); err != nil {
			return fmt.Errorf("the server %s cannot be removed from the group of coordinators: %w", p.Label(), err)
		}
		c.Log.Info("a server that is no coordinator any more was removed from the group", "server", p.Label())
	}
	return nil
}

// step carries out a phase, and returns the record of the next one.
func (c *Changer) step(ctx context.Context, r *Record) (*Record, error) {
	c.Log.Info("the coordinators are being changed", "change", r.Describe(), "phase", r.Phase)
	next := *r
	if err := c.tellLiving(ctx, r); err != nil {
		return nil, err
	}
	failpoint.At("nodes told of coordinators")
	switch {
	case r.Phase == Prepare:
		if next.Phase = Copy; r.grows() && len(r.Members) == 1 {
			next.Phase = Convert
		}
		return &next, c.Bus.Identify(ctx)
	case r.Phase == Convert && r.grows():
		next.Phase = Copy
		return &next, c.isClustered(ctx, true)
	case r.Phase == Convert:
		err := c.isClustered(ctx, false)
		next.Members, next.Next, next.Phase = r.Next, nil, ""
		return &next, err
	}
	if err := c.copies(ctx, r); err != nil {
		return nil, err
	}
	failpoint.At("records copied")
	if !r.grows() && len(r.Next) == 1 {
		next.Phase = Convert
		return &next, nil
	}
	next.Members, next.Next, next.Phase = r.Next, nil, ""
	return &next, nil
}

// tellLiving sends the record to all nodes that need it. A node that loses its coordinator to another one may have died
// a moment ago, so tellLiving tries again until its lease has ended.
func (c *Changer) tellLiving(ctx context.Context, r *Record) error {
	nodes := c.mustKnow(r)
	if !r.replaces() {
		return c.tell(ctx, r, nodes)
	}
	leaving := Nodes(without(r.Members, r.Next))
	if err := c.tell(ctx, r,
		slices.DeleteFunc(nodes, func(n string) bool { return slices.Contains(leaving, n) })); err != nil {
		return err
	}
	for end := time.Now().Add(tellTimeout); ; time.Sleep(time.Second) {
		living := slices.DeleteFunc(c.Living(), func(n string) bool { return !slices.Contains(leaving, n) })
		if err := c.tell(ctx, r, living); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// mustKnow returns the nodes that must have the record before the change continues: all running nodes, and the nodes of
// the coordinators that the change needs.
func (c *Changer) mustKnow(r *Record) []string {
	out := c.Living()
	needed := r.Next
	if r.grows() {
		needed = append(slices.Clone(r.Members), r.Next...)
	}
	for _, node := range Nodes(needed) {
		if !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	return out
}

// tell sends a record to nodes, which then follow it. All nodes get it at once, except the node of a single
// coordinator, which gets it last: it restarts the coordinator, and the other nodes must know the new coordinators
// before that.
func (c *Changer) tell(ctx context.Context, r *Record, nodes []string) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	last := ""
	if r.Phase == Convert {
		last = append(slices.Clone(r.Members), r.Next...)[0].Node
		if !r.grows() {
			last = r.Next[0].Node
		}
	}
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		if node == last {
			continue
		}
		all.Go(func() {
			if err := c.Tell(ctx, node, r); err != nil {
				errs[i] = fmt.Errorf("the node %s: %w", node, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || last == "" {
		return err
	}
	if err := c.Tell(ctx, last, r); err != nil {
		return fmt.Errorf("the node %s: %w", last, err)
	}
	return nil
}

// isClustered waits until the store of the records belongs to several coordinators, or to a single one.
func (c *Changer) isClustered(ctx context.Context, several bool) error {
	return repeat(ctx, time.Minute, func(ctx context.Context) error {
		s, err := c.Bus.JS.Stream(ctx, bus.JournalStream)
		if err != nil {
			return fmt.Errorf("the coordinators do not answer: %w", err)
		}
		if cl := s.CachedInfo().Cluster; (cl != nil && cl.Name != "") != several {
			return errors.New("the coordinator has not been converted yet")
		}
		return nil
	})
}

// copies sets the number of copies of each stream to the number of coordinators after the change.
func (c *Changer) copies(ctx context.Context, r *Record) error {
	var names []string
	err := repeat(ctx, writeTimeout, func(ctx context.Context) error {
		names = nil
		all := c.Bus.JS.StreamNames(ctx)
		for name := range all.Name() {
			names = append(names, name)
		}
		if err := all.Err(); err != nil {
			return err
		}
		if !slices.Contains(names, bus.JournalStream) {
			return errors.New("the list of records is not complete")
		}
		return nil
	})
	if err != nil {
		return err
	}
	removes := !r.grows() && len(r.Next) > 1
	for _, name := range names {
		if err := repeat(ctx, copyTimeout,
			func(ctx context.Context) error { return c.resize(ctx, name, r, !removes) }); err != nil {
			return fmt.Errorf("the copies of %s: %w", name, err)
		}
		failpoint.At("stream copied")
	}
	if !removes {
		return nil
	}
	if err := repeat(ctx, groupTimeout,
		func(ctx context.Context) error { return c.changesPlaces(ctx, r) }); err != nil {
		return err
	}
	// Servers of an earlier replacement that was given up can still have copies.
	if err := repeat(ctx, writeTimeout, func(ctx context.Context) error {
		return c.keepOnly(ctx, append(slices.Clone(r.Members), r.Next...))
	}); err != nil {
		return err
	}
	for _, m := range without(r.Members, r.Next) {
		if err := repeat(ctx, writeTimeout,
			func(ctx context.Context) error { return c.Bus.RemoveServer(ctx, bus.PeerID(m.Server)) }); err != nil {
			return fmt.Errorf("the coordinator of %s cannot be removed from the group: %w", m.Node, err)
		}
	}
	for _, name := range names { // the removal can have moved copies
		if err := repeat(ctx, copyTimeout,
			func(ctx context.Context) error { return c.resize(ctx, name, r, true) }); err != nil {
			return fmt.Errorf("the copies of %s: %w", name, err)
		}
	}
	return nil
}

// changesPlaces returns an error until a coordinator that replaces another one can take its copies. The servers place
// these when the other one is removed. A coordinator that still runs would join the group again.
func (c *Changer) changesPlaces(ctx context.Context, r *Record) error {
	if !r.replaces() {
		return nil
	}
	group, err := c.Bus.Group(ctx)
	if err != nil {
		return err
	}
	for _, m := range without(r.Next, r.Members) {
		if !slices.ContainsFunc(group, func(p bus.Peer) bool { return p.Is(m.Server) && p.Current && p.Runs() }) {
			return fmt.Errorf("the coordinator of %s has not joined the others", m.Node)
		}
	}
	for _, m := range without(r.Members, r.Next) {
		if slices.ContainsFunc(group, func(p bus.Peer) bool { return p.Is(m.Server) && p.Runs() }) {
			return fmt.Errorf("the coordinator of %s has not stopped", m.Node)
		}
	}
	return nil
}

// resize takes the next step to give a stream its copies, and returns an error until no step is left. If check is true,
// it also waits until all copies are current. Otherwise, it is enough that the servers have accepted the number of
// copies.
func (c *Changer) resize(ctx context.Context, name string, r *Record, check bool) error {
	s, err := c.Bus.JS.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, want := s.CachedInfo(), len(r.Next)
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return errors.New("it has no leader yet")
	}
	if cfg := info.Config; cfg.Replicas != want || cfg.Placement != nil {
		if want == 1 && info.Cluster.Leader != r.Next[0].Server {
			return errors.Join(c.lead(ctx, name, r.Next[0].Server), fmt.Errorf("%s leads it", info.Cluster.Leader))
		}
		if !check { // servers that still run would keep their copies
			for _, p := range info.Cluster.Replicas {
				if !p.Offline &&
					slices.ContainsFunc(without(r.Members, r.Next), func(m Member) bool { return m.Server == p.Name }) {
					return fmt.Errorf("the coordinator %s has not stopped", p.Name)
				}
			}
		}
		cfg.Replicas, cfg.Placement = want, nil
		if _, err := c.Bus.JS.UpdateStream(ctx, cfg); err != nil {
			return err
		}
		return errors.New("it is being copied")
	}
	if !check {
		return nil
	}
	if len(info.Cluster.Replicas) != want-1 {
		return fmt.Errorf("it has %d copies", len(info.Cluster.Replicas)+1)
	}
	servers := []string{info.Cluster.Leader}
	for _, p := range info.Cluster.Replicas {
		if !p.Current || p.Offline {
			return fmt.Errorf("the copy of %s is not current", p.Name)
		}
		servers = append(servers, p.Name)
	}
	for _, m := range r.Next {
		if !slices.Contains(servers, m.Server) {
			return fmt.Errorf("the coordinator of %s has no copy, and %s have", m.Node, strings.Join(servers, ", "))
		}
	}
	return nil
}

// lead asks the leader of a stream to let another server lead it.
func (c *Changer) lead(ctx context.Context, stream, server string) error {
	b, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": server}})
	if err != nil {
		return err
	}
	_, err = c.Bus.Conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, b)
	return err
}
