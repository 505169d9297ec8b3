package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/placement"
)

// drain moves the shared sessions of this node to other nodes. It first marks this node as draining, so that new
// sessions begin on other nodes.
func (f *Fleet) drain(ctx context.Context, a Arguments) (*Drained, error) {
	f.lease.Update(func(r *lease.Record) { r.State = lease.StateDraining })
	out := &Drained{Ended: []string{}, Local: []string{}}
	end := time.Now().Add(cmp.Or(a.Wait, 10*time.Minute))
	type session struct {
		key string
		e   *directory.Entry
	}
	var mine []session
	f.sessions.All(func(key string, e *directory.Entry) bool {
		if e.Owner == f.node() {
			mine = append(mine, session{key, e})
		}
		return true
	})
	var errs []error
	for _, s := range mine {
		if _, node := placement.Split(s.e.Workspace); !s.e.Shared || node != "" {
			out.Local = append(out.Local, s.e.Session)
			continue
		}
		ended, err := f.moveEnding(ctx, s.key, "", time.Until(end))
		out.Ended = append(out.Ended, ended...) // also if the session was not moved after that
		if err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", s.e.Session, err))
			continue
		}
		out.Moved++
	}
	slices.Sort(out.Local)
	if len(out.Local) > 0 && !a.AbandonLocal {
		errs = append(errs, fmt.Errorf("%d sessions cannot move, because they name this node, or this node alone has the files of their workspaces. Wait until they are done, or go on without them: --abandon-local", len(out.Local)))
	}
	return out, errors.Join(errs...)
}

// handOverLeaving hands a session over to another node while this node shuts down, so that calls need not wait until
// this node has ended. It returns the refusal for the call that requested the session.
func (f *Fleet) handOverLeaving(ctx context.Context, key string) *refusal {
	f.announceLeaving()
	leaves := &refusal{reason: absent, err: fmt.Errorf("the node %s shuts down", f.node())}
	e := f.sessions.Find(key)
	switch {
	case e == nil || !e.Shared:
		return leaves
	case e.Owner != f.node():
		return &refusal{
			reason: moved, owner: e.Owner, epoch: e.Epoch, err: fmt.Errorf("the node %s has the session", e.Owner),
		}
	}
	if err := f.move(ctx, key, "", 0); err != nil {
		leaves.err = fmt.Errorf("the node %s shuts down: %w", f.node(), err)
		return leaves
	}
	if e = f.sessions.Find(key); e == nil {
		return leaves
	}
	return &refusal{
		reason: moved, owner: e.Owner, epoch: e.Epoch, err: fmt.Errorf("the node %s has the session", e.Owner),
	}
}

// announceLeaving marks this node as draining, so that the other nodes place no more sessions on it.
func (f *Fleet) announceLeaving() {
	if own := f.lease.Own(); own.State == lease.StateReady || own.State == lease.StateMismatched {
		f.lease.Update(func(r *lease.Record) { r.State = lease.StateDraining })
	}
}

// move moves a session to another node.
func (f *Fleet) move(ctx context.Context, key, to string, wait time.Duration) error {
	_, err := f.moveEnding(ctx, key, to, wait)
	return err
}

// moveEnding moves a session to another node between two of its calls. It waits until the running calls and jobs of the
// session have ended. It ends the jobs that still run after the wait, and returns a description of each. If a call
// still runs after the wait, moveEnding returns an error. The other node gets the session only when all processes of
// the session have ended, so that they change no files beside its new calls.
func (f *Fleet) moveEnding(ctx context.Context, key, to string, wait time.Duration) (ended []string, err error) {
	e := f.sessions.Find(key)
	switch {
	case e == nil:
		return nil, errors.New("the session is gone")
	case e.Owner != f.node():
		return nil, fmt.Errorf("the node %s has the session", e.Owner)
	case strings.Contains(e.Workspace, "@"):
		return nil, fmt.Errorf("the session %s cannot move, because its workspace %s names the node %s", e.Session, e.Workspace, f.node())
	case !e.Shared:
		return nil, fmt.Errorf("the session %s cannot move, because only %s has the files of the workspace %s", e.Session, f.node(), e.Workspace)
	}
	target, err := f.target(key, e, to)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	o := f.owned[key]
	f.mu.Unlock()
	if o == nil { // the session was not used since the start of the node
		return nil, f.handOver(ctx, key, e, target)
	}
	select {
	case <-o.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.failed != nil {
		return nil, fmt.Errorf("the session could not be opened: %w", o.failed.err)
	}
	if ended, err = f.quiet(ctx, o, wait); err != nil {
		return nil, err
	}
	incarnation, _, ok := f.lease.Incarnation()
	if !ok || incarnation != o.incarnation {
		return nil, errNoLease(f.node())
	}
	failpoint.At("calls held back")
	state, err := f.host.SessionState(o.request)
	if err == nil {
		r := o.snapshot(state)
		err = o.log.Append(ctx, r)
		failpoint.At("state recorded")
	}
	if err == nil {
		err = f.host.EndSession(o.request) // because its shells and other processes cannot move to the other node
		failpoint.At("session ended")
	}
	if err == nil {
		err = f.handOver(ctx, key, o.entry, target)
		failpoint.At("entry handed over")
	}
	f.release(o)
	return ended, err
}

// release ends the use of an open session. The next call opens the session again, if this node still has it.
func (f *Fleet) release(o *owned) {
	f.mu.Lock()
	if f.owned[o.key] == o {
		delete(f.owned, o.key)
	}
	f.mu.Unlock()
	o.drop()
}

// removeSession ends a session of this node, between two of its calls, and removes all records of it. It returns the
// last revision of the session's entry in the directory.
func (f *Fleet) removeSession(ctx context.Context, key string, wait time.Duration) (revision uint64, err error) {
	e := f.sessions.Find(key)
	switch {
	case e == nil:
		return 0, errors.New("the session is gone: it was removed meanwhile")
	case e.Owner != f.node():
		return 0, fmt.Errorf("the node %s has the session", e.Owner)
	}
	f.mu.Lock()
	o := f.owned[key]
	f.mu.Unlock()
	if o == nil { // the session was not used since the start of the node
		return e.Revision, f.forgetSession(ctx, key, e)
	}
	select {
	case <-o.ready:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if o.failed == nil {
		if _, err := f.quiet(ctx, o, wait); err != nil {
			return 0, err
		}
		if o.shared { // the entry in the directory can be that of another, newer session
			e = o.entry
		}
	}
	err = f.host.EndSession(o.request) // before the records are removed, because another node can then begin a session of this name
	if o.failed != nil {
		err = nil // the host does not know each session that could not be opened
	}
	if err == nil {
		err = f.forgetSession(ctx, key, e)
	}
	f.release(o)
	if err == nil && o.failed == nil {
		err = f.host.ChangeSession(o.request, &host.SessionChange{Whole: true}) // a new session of this name must begin empty
	}
	return e.Revision, err
}

// forgetSession removes the records of a session. It removes the journal before the entry of the directory, so that a
// failed operation can be repeated.
func (f *Fleet) forgetSession(ctx context.Context, key string, e *directory.Entry) error {
	c, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if e.Shared {
		if err := f.bus.Journal.Purge(c, jetstream.WithPurgeSubject(bus.JournalSubject+key)); err != nil {
			return fmt.Errorf("the journal of the session cannot be removed: %w", err)
		}
		failpoint.At("journal removed")
	}
	if err := f.sessions.Remove(c, key, e); err != nil {
		if bus.IsConflict(err) {
			return errors.New("the session is used again, or another node has it now. See toolhost fleet sessions")
		}
		return fmt.Errorf("the directory of the fleet cannot be changed: %w", err)
	}
	failpoint.At("entry removed")
	return nil
}

// settleTime is the maximum time until this node sees the new state of a node.
const settleTime = 10 * time.Second

// settle waits until this node knows the effect of an operation on a node, so that the next command sees the effect.
// out is the answer of another node. If the operation failed, settle does nothing.
func (f *Fleet) settle(ctx context.Context, operation string, a Arguments, out json.RawMessage, failed error) error {
	if failed != nil {
		return nil
	}
	var state func(*lease.Peer) bool
	switch operation {
	case OpDrain:
		state = func(p *lease.Peer) bool { return p == nil || p.State != lease.StateReady }
	case OpUndrain:
		state = func(p *lease.Peer) bool { return p == nil || p.State != lease.StateDraining }
	case OpRemove:
		var r removed // empty in the answer of an earlier version
		if out != nil && json.Unmarshal(out, &r) == nil {
			f.sessions.Removed(a.Session, r.Revision)
		}
		return nil
	default:
		return nil
	}
	c, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := f.lease.Await(c, a.Node, state); err != nil {
		return fmt.Errorf("the node %s was told, but its record has not changed: %w. See toolhost fleet status", a.Node, err)
	}
	return nil
}

// removed is the answer to OpRemove. Revision is the last revision of the session's entry in the directory.
type removed struct {
	Revision uint64 `json:"revision,omitempty"`
}

// target returns the node to which a session moves. If the argument "to" is empty, target chooses a node.
func (f *Fleet) target(key string, e *directory.Entry, to string) (*lease.Peer, error) {
	e = f.filesOf(e)
	if to == "" {
		best := uint64(0)
		var why []string
		for name, p := range f.lease.Peers() {
			if name == f.node() || !f.serves(p) {
				continue
			}
			if reason := placement.Lacks(p, e.Workspace, e); reason != "" {
				why = append(why, name+": "+reason)
			} else if w := placement.Rank(name, key); w >= best {
				best, to = w, name
			}
		}
		if to == "" {
			slices.Sort(why)
			return nil, errors.New(strings.Join(append([]string{"no other node has the files of the workspace " + e.Workspace + " and takes sessions"}, why...), "; "))
		}
	}
	p := f.lease.Peer(to)
	switch {
	case p == nil:
		return nil, fmt.Errorf("there is no node %s", to)
	case to == f.node():
		return nil, fmt.Errorf("the session is on %s already", to)
	case !f.serves(p):
		return nil, fmt.Errorf("the node %s takes no sessions: it is %s", to, f.stateOf(p))
	}
	w, has := placement.Of(p, e.Workspace)
	if !has {
		return nil, fmt.Errorf("the node %s has no workspace %s", to, e.Workspace)
	}
	return p, placement.CheckFiles(e, to, w.Shared)
}

// handOver makes another node the owner of a session. The new owner opens the session when the next call arrives.
func (f *Fleet) handOver(ctx context.Context, key string, e *directory.Entry, to *lease.Peer) error {
	next := *e
	next.Owner, next.Incarnation, next.Epoch = to.Node, to.Incarnation, e.Epoch+1
	if _, err := f.sessions.Replace(ctx, key, next); err != nil {
		return fmt.Errorf("the session was not moved: %w", err)
	}
	return nil
}

// quiet waits until no job and no call of a session runs. It returns the jobs that still run after the wait. Then it
// holds new calls back at their gateways and waits for the running calls. If a call still runs after the wait, quiet
// returns an error.
func (f *Fleet) quiet(ctx context.Context, o *owned, wait time.Duration) (ended []string, err error) {
	end := time.Now().Add(max(wait, 0))
	for jobs := f.jobs(ctx, o); len(jobs) > 0; jobs = f.jobs(ctx, o) { // calls are not held back here: a call can end the job
		if time.Now().After(end) {
			ended = jobs
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(500*time.Millisecond, max(time.Until(end), 0)+10*time.Millisecond)):
		}
	}
	o.mu.Lock()
	if o.moving {
		o.mu.Unlock()
		return nil, errors.New("the session moves already")
	}
	o.moving = true
	var idle chan struct{}
	if o.running > 0 {
		idle = make(chan struct{})
		o.idle = idle
	}
	o.mu.Unlock()
	if idle == nil {
		return ended, nil
	}
	select {
	case <-idle:
		return ended, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(max(time.Until(end), 100*time.Millisecond)):
		err = f.stillRuns(o)
	}
	o.mu.Lock()
	o.moving, o.idle = false, nil
	o.mu.Unlock()
	return nil, err
}

// stillRuns returns the error about a call of a session that did not end in time.
func (f *Fleet) stillRuns(o *owned) error {
	who := o.request.Principal
	key, _ := who.SessionKey(o.request.Session, o.request.Workspace) // the session is open, so it has a key
	calls, _ := f.host.ActiveCalls(who, math.MaxInt)
	for _, c := range calls {
		if c.Session == key && c.Ask != "" {
			return fmt.Errorf("a call of the session waits for an answer (%s). Answer it at the node of its client, or cancel the call: POST /v1/calls/%d/cancel at the node %s", c.Text, c.ID, f.node())
		}
	}
	return errors.New("a call of the session still runs. Wait longer: --wait")
}

// jobs lists the background jobs of a session.
func (f *Fleet) jobs(ctx context.Context, o *owned) (out []string) {
	req := o.request
	req.Name, req.Arguments = f.host.RoleName(tool.RoleJobs), json.RawMessage(`{"action":"list"}`)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	res := f.host.BeginHere(req, nil).Run(ctx)
	var list struct {
		Jobs []struct {
			ID, Command         string
			Running, Foreground bool
		} `json:"jobs"`
	}
	if json.Unmarshal(res.Data, &list) != nil {
		return nil // no plugin has jobs
	}
	for _, j := range list.Jobs {
		if j.Running && !j.Foreground {
			out = append(out, fmt.Sprintf("job %s (%s) of the session %s", j.ID, j.Command, o.entry.Session))
		}
	}
	return out
}

// place chooses the node for a session that no living node has. It picks two random nodes that have the files, and
// returns the one with more free capacity. The argument e is the entry of the session, or nil for a new session. If no
// node takes the session, the error contains the reason for each node.
func (f *Fleet) place(r *request, e *directory.Entry) (string, error) {
	var able []*lease.Peer
	var why []string
	_, node := placement.Split(r.wire.Workspace)
	for name, p := range f.lease.Peers() {
		if node != "" && name != node {
			continue
		}
		lack := placement.Lacks(p, r.wire.Workspace, e)
		switch {
		case lack != "":
			why = append(why, name+": "+lack)
		case p.Fenced:
			why = append(why, name+": does not answer")
		case !f.serves(p) && (node == "" || !f.servesNamed(p)):
			why = append(why, name+": "+f.stateOf(p))
		case p.MaxSessions > 0 && p.Sessions >= p.MaxSessions:
			why = append(why, name+": has its maximum of sessions")
		default:
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		return "", errNoPlace(why)
	}
	return placement.Best(able, r.key), nil
}

// filesOf returns the entry of a session of this node with the identity of its files. Entries by earlier versions lack
// the identity, but the session is in the files of this node.
func (f *Fleet) filesOf(e *directory.Entry) *directory.Entry {
	name, _ := placement.Split(e.Workspace)
	w := f.settings.Workspace(name)
	if !e.Shared || e.Identity != "" || w == nil || !w.Here(f.settings.Labels) {
		return e
	}
	out := *e
	out.Identity = w.Shared
	return &out
}
