package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/placement"
	"toolhost.dev/host/fleet/internal/surplus"
)

// incoming is a call that was sent to this node to be run here.
type incoming struct {
	key, id   string
	once      bool
	gateway   string
	principal *host.Principal
	wire      *hop.Request
	digest    []byte // see [hop.Request.Content]
	trace     string
	// queued is called when the call is queued, so that later calls come after it. begun is called before the call can
	// change something. It returns an error if the call must not run. If waits is true, begun waits until the gateway
	// knows that the call begins.
	queued func(native bool)
	begun  func(ctx context.Context, tool string, waits bool) error
}

// runHere runs a call if this node has the session of the call, or can take the session. A refusal means that nothing
// ran.
func (f *Fleet) runHere(ctx context.Context, in *incoming, client host.Client) (*tool.Result, *refusal) {
	name, node := placement.Split(in.wire.Workspace)
	w := f.settings.Workspace(name)
	if w == nil || !w.Here(f.settings.Labels) || node != "" && node != f.node() {
		return nil, &refusal{
			reason: absent, err: fmt.Errorf("the node %s has no workspace %s", f.node(), in.wire.Workspace),
		}
	}
	if f.host.Ready() != nil {
		return nil, f.handOverLeaving(ctx, in.key)
	}
	o, refused := f.acquire(ctx, in, w)
	if refused != nil {
		return nil, refused
	}
	defer f.leave(o)
	if o.shared {
		incarnation, living, ok := f.lease.Incarnation()
		if !ok || incarnation != o.incarnation {
			return nil, &refusal{reason: absent, err: noLease(f.node())}
		}
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		if !without("kill") {
			defer context.AfterFunc(living, func() { cancel(errLeaseEnded) })()
		}
	}
	return f.run(ctx, o, in, w, client)
}

var errLeaseEnded = errors.New("the lease of the node ended")

// noLease returns the reason why a node without a lease refuses calls of shared workspaces. errNoLease returns this
// reason as an error.
func noLease(node string) *tool.Error {
	return tool.Errorf(tool.Unavailable, "the node %s cannot reach the coordinators of the fleet, so it may not run calls of shared workspaces", node).WithCode(CodeNoQuorum)
}

func errNoLease(node string) error {
	return tool.Errorf(tool.Unavailable, "Nothing was run, because %w. See toolhost fleet status.", noLease(node)).WithCode(CodeNoQuorum).WithRetryAfter(time.Second)
}

// run runs a call of an open session.
func (f *Fleet) run(ctx context.Context, o *owned, in *incoming, w *host.FleetWorkspace,
	client host.Client) (*tool.Result, *refusal) {
	for {
		k, active, refused := o.reserve(in)
		if refused != nil {
			return nil, refused
		}
		if active == nil {
			if k != nil {
				in.queued(false)
				return o.repeated(f.node(), k), nil
			}
			break
		}
		select {
		case <-active:
		case <-ctx.Done():
			return nil, &refusal{reason: answered, err: tool.Errorf(tool.Canceled, "The call waited for an earlier request with the same id, and was canceled.")}
		}
	}
	defer o.release(in.id)
	req := f.hostRequest(in, w)
	l := &ledger{f: f, o: o, in: in}
	req.Ledger = l
	pending := f.host.BeginHere(req, client)
	in.queued(pending.Native())
	res := pending.Run(ctx)
	if !l.began.Load() && res.Error != nil && errors.Is(res.Error, host.ErrStopped) && in.gateway != f.node() { // another node can ask
		return nil, &refusal{reason: absent, err: fmt.Errorf("the node %s shuts down", f.node())}
	}
	return l.end(ctx, res), nil
}

// hostRequest returns the request for this host.
func (f *Fleet) hostRequest(in *incoming, w *host.FleetWorkspace) host.Request {
	who := in.principal
	if who.Local {
		who = who.Admitting(w.Path) // the operator named the workspace
	}
	req := in.wire.Host(w.Path)
	req.Trace, req.Principal = in.trace, who
	return req
}

// acquire returns the open session of a call, and counts the call. It takes the session if no living node has it.
func (f *Fleet) acquire(ctx context.Context, in *incoming, w *host.FleetWorkspace) (*owned, *refusal) {
	incarnation, _, valid := f.lease.Incarnation()
	shared := w.Shared != ""
	if shared && !valid {
		return nil, &refusal{reason: absent, err: noLease(f.node())}
	}
	f.mu.Lock()
	o := f.owned[in.key]
	if o != nil && (o.shared && o.incarnation != incarnation || o.isBroken()) {
		delete(f.owned, in.key)
		o.drop()
		o = nil
	}
	mine := o == nil
	if mine {
		o = &owned{key: in.key, incarnation: incarnation, shared: shared, ready: make(chan struct{}),
			calls: make(map[string]*earlier)}
		f.owned[in.key] = o
	}
	f.mu.Unlock()
	if mine {
		o.failed = f.open(ctx, o, in, w)
		if o.failed != nil {
			f.mu.Lock()
			if f.owned[in.key] == o {
				delete(f.owned, in.key)
			}
			f.mu.Unlock()
		}
		close(o.ready)
	}
	select {
	case <-o.ready:
	case <-ctx.Done():
		return nil, &refusal{reason: absent, err: errors.New("the call ended while its session was opened")}
	}
	if o.failed != nil {
		return nil, o.failed
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moving || o.gone {
		return nil, &refusal{reason: moved, err: errors.New("the session moves to another node")}
	}
	o.running++
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	return o, nil
}

// leave updates the counts of running calls when a call has ended.
func (f *Fleet) leave(o *owned) {
	f.mu.Lock()
	f.calls--
	f.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used = time.Now()
	if o.running--; o.running == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// open makes this node the owner of a session, and restores the state of the session if another node had it.
func (f *Fleet) open(ctx context.Context, o *owned, in *incoming, w *host.FleetWorkspace) *refusal {
	o.request = f.hostRequest(&incoming{wire: &hop.Request{Session: in.wire.Session, Branch: in.wire.Branch,
		Endpoint: in.wire.Endpoint}, principal: in.principal}, w)
	if _, err := f.host.Cwd(o.request); err != nil { // the principal must be allowed to use the workspace
		return &refusal{reason: answered, err: err}
	}
	entry, refused := f.claim(ctx, o, in, w.Shared)
	if refused != nil {
		return refused
	}
	has := f.localState(o, entry)
	if o.shared && (entry.Owner != f.node() || entry.Incarnation != o.incarnation || entry.Opened == entry.Epoch) {
		next := *entry
		next.Owner, next.Incarnation, next.Epoch, next.Config = f.node(), o.incarnation, entry.Epoch+1,
			f.lease.Own().Config
		next.Shared, next.Identity = true, w.Shared
		taken, err := f.sessions.Replace(ctx, in.key, next)
		if err != nil {
			return f.replaceFailed(ctx, in.key, err)
		}
		entry = taken
		failpoint.At("entry taken")
	}
	if !o.shared {
		f.keepEntry(in.key, entry)
	}
	o.entry = entry
	if o.shared {
		if refused := f.openJournal(ctx, o, has); refused != nil {
			return refused
		}
	}
	taken, stop, err := f.host.FollowSession(o.request)
	if err != nil {
		return &refusal{reason: answered, err: err}
	}
	o.taken, o.stop = taken, stop
	return nil
}

// claim returns the entry of a session that this node has or may take. The argument shared is the identity of this
// node's files.
func (f *Fleet) claim(ctx context.Context, o *owned, in *incoming, shared string) (*directory.Entry, *refusal) {
	entry := f.sessions.Find(in.key)
	if entry == nil {
		var err error
		if entry, err = f.sessions.Read(ctx, in.key); err != nil {
			return nil, &refusal{reason: absent, err: fmt.Errorf("the directory of the fleet cannot be read: %w", err)}
		}
	}
	if entry == nil {
		own := f.lease.Own()
		_, named := placement.Split(in.wire.Workspace)
		if own.State != lease.StateReady && (named == "" || own.State != lease.StateMismatched) {
			return nil, &refusal{reason: absent, err: fmt.Errorf("the node %s is %s and takes no sessions", f.node(), own.State)}
		}
		// If this node was killed while it removed a session of this name, it can still have the state of that session.
		if err := f.host.ChangeSession(o.request, &host.SessionChange{Whole: true}); err != nil {
			return nil, &refusal{reason: answered, err: err}
		}
		created, err := f.sessions.Create(ctx, in.key, directory.Entry{
			Owner: f.node(), Incarnation: o.incarnation, Workspace: in.wire.Workspace, Shared: o.shared,
			Identity: shared, Principal: in.principal.Name, Session: in.wire.Session, Config: own.Config,
		})
		if err != nil {
			return nil, &refusal{reason: absent, err: fmt.Errorf("the session cannot be added to the directory of the fleet: %w", err)}
		}
		entry = created
		failpoint.At("entry created")
	}
	if entry.Owner != f.node() {
		if p := f.lease.Peer(entry.Owner); !entry.Shared || p != nil && !p.Ended(entry.Incarnation) {
			return nil, &refusal{reason: moved, owner: entry.Owner, epoch: entry.Epoch,
				err: fmt.Errorf("the node %s has the session", entry.Owner)}
		}
	}
	if err := placement.CheckFiles(entry, f.node(), shared); err != nil { // the gateway can be of a version that does not compare the files
		return nil, &refusal{reason: absent, err: err}
	}
	return entry, nil
}

// replaceFailed returns the refusal for an entry that could not be changed.
func (f *Fleet) replaceFailed(ctx context.Context, key string, err error) *refusal {
	if !bus.IsConflict(err) {
		return &refusal{reason: absent, err: fmt.Errorf("the session cannot be taken: %w", err)}
	}
	now, err := f.sessions.Read(ctx, key)
	if err != nil || now == nil {
		return &refusal{reason: moved, err: errors.New("another node took the session")}
	}
	return &refusal{
		reason: moved, owner: now.Owner, epoch: now.Epoch, err: fmt.Errorf("the node %s took the session", now.Owner),
	}
}

// had describes how much of the state of a session is on this node when the node opens the session.
type had int

const (
	nothing had = iota // no state, or only state from before another node had the session
	older              // the state that an earlier run of this node saved; after a crash, the last calls can be missing
	newest             // at least what the journal contains
)

// localState returns how much of the state of a session is on this node.
func (f *Fleet) localState(o *owned, e *directory.Entry) had {
	switch {
	case e.Owner != f.node():
		return nothing
	case e.Opened == 0: // no node has opened the journal yet, or the journal was repaired and lacks the newest calls
		return newest
	case e.Opened != e.Epoch: // this node took the session, but did not restore the state
		return nothing
	case e.Incarnation != o.incarnation:
		return older
	}
	return newest
}

// openJournal opens the journal in the epoch of the entry. It restores from the journal the parts of the session's
// state that this node does not have.
func (f *Fleet) openJournal(ctx context.Context, o *owned, has had) *refusal {
	log, records, err := journal.Open(ctx, f.bus, f.node(), o.key, o.entry.Epoch, o.entry.Opened)
	var newer *journal.NewerError
	if errors.As(err, &newer) { // the records are from an earlier session of this name; use a later epoch
		has = newest
		next := *o.entry
		next.Epoch = newer.Epoch + 1
		var entry *directory.Entry
		if entry, err = f.sessions.Replace(ctx, o.key, next); err != nil {
			return f.replaceFailed(ctx, o.key, err)
		}
		o.entry = entry
		log, records, err = journal.Open(ctx, f.bus, f.node(), o.key, entry.Epoch, entry.Opened)
	}
	switch {
	case errors.Is(err, journal.ErrLost):
		return &refusal{reason: moved, err: err}
	case errors.Is(err, journal.ErrBroken), errors.Is(err, journal.ErrFormat):
		return f.damaged(o, err)
	case errors.Is(err, journal.ErrFull):
		return &refusal{reason: answered, err: errJournalFull()}
	case err != nil:
		return &refusal{reason: absent, err: err}
	}
	failpoint.At("epoch recorded")
	if incarnation, living, _ := f.lease.Incarnation(); incarnation == o.incarnation && !without("kill") {
		log.Bind(living)
	}
	o.log = log
	if !without("records") {
		o.remember(records, f.lease.Now())
	}
	o.unknown, o.nodes = unknownState(records), nodesOf(records, f.node())
	if has != newest && len(records) > 0 {
		err := f.restore(o, records, has == nothing)
		if errors.Is(err, journal.ErrBroken) {
			return f.damaged(o, err)
		}
		if err != nil {
			return &refusal{reason: answered, err: fmt.Errorf("the state of the session cannot be restored: %w", err)}
		}
	}
	next := *o.entry
	next.Opened = next.Epoch
	entry, err := f.sessions.Replace(ctx, o.key, next)
	if err != nil {
		return f.replaceFailed(ctx, o.key, err)
	}
	o.entry = entry
	failpoint.At("entry opened")
	return nil
}

// damaged returns the refusal for a session whose journal cannot be used.
func (f *Fleet) damaged(o *owned, err error) *refusal {
	f.log.Error("a session cannot be taken", "session", o.entry.Session, "principal", o.entry.Principal, "why", err)
	remedy := "An operator can let it go on with what can still be read: toolhost fleet session repair " + o.key
	if errors.Is(err, journal.ErrFormat) {
		remedy = "An operator must upgrade the node " + f.node()
	}
	return &refusal{
		reason: answered, err: tool.Errorf(tool.Unavailable, "The session cannot go on: %w. %s.", err, remedy),
	}
}

// restore applies the state in the records of the journal to the session. If whole is false, it keeps the other parts
// of the state that this node already has.
func (f *Fleet) restore(o *owned, records []journal.Record, whole bool) error {
	change, lost, err := restored(records)
	if err == nil {
		change.Whole = whole
		err = f.host.ChangeSession(o.request, change)
	}
	if err != nil {
		return err
	}
	failpoint.At("state restored")
	for _, r := range slices.Backward(records) {
		if whole && r.Node != f.node() {
			o.movedFrom, o.lost = r.Node, lost
			f.metrics.takeovers.Add(1)
			f.log.Info("a session was taken", "session", o.entry.Session, "principal", o.entry.Principal, "from",
				r.Node, "epoch", o.entry.Epoch)
			return nil
		}
	}
	return nil
}

// unknownState returns the parts of the state that only a later version of toolhost knows. Snapshots by this node must
// keep these parts.
func unknownState(records []journal.Record) surplus.Fields {
	out := make(surplus.Fields)
	for i := range records {
		if records[i].Kind == journal.Snapshot {
			clear(out)
		}
		if len(records[i].State) > 0 {
			more, _ := surplus.Decode(records[i].State, new(host.SessionChange)) // the error is ignored: restored reports it
			maps.Copy(out, more)
		}
	}
	return out
}

// restored returns the state of a session after all changes in the given records. The result lost names the parts of
// the state that were too large for the records. For such a part, an older value would mislead, so it is left out.
func restored(records []journal.Record) (out *host.SessionChange, lost []string, err error) {
	out = &host.SessionChange{Whole: true, Plugins: make(map[string][]byte)}
	files := make(map[string]tool.FileState)
	for i := range records {
		r := &records[i]
		if len(r.State) == 0 && len(r.Lost) == 0 {
			continue
		}
		var c host.SessionChange
		if len(r.State) > 0 {
			if err := json.Unmarshal(r.State, &c); err != nil {
				return nil, nil, fmt.Errorf("%w: %w", journal.ErrBroken, err)
			}
		}
		if r.Kind == journal.Snapshot {
			clear(files)
			clear(out.Plugins)
			lost = nil
		}
		if c.Session != nil {
			out.Session = c.Session
		}
		for _, f := range c.Files {
			files[f.Path] = f
		}
		for _, path := range c.Removed {
			delete(files, path)
		}
		maps.Copy(out.Plugins, c.Plugins)
		lost = slices.DeleteFunc(lost, func(name string) bool { _, again := c.Plugins[name]; return again })
		for _, name := range r.Lost {
			delete(out.Plugins, name)
			if !slices.Contains(lost, name) {
				lost = append(lost, name)
			}
		}
	}
	slices.Sort(lost)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		out.Files = append(out.Files, files[path])
	}
	return out, lost, nil
}
