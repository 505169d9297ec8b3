package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/router"
)

// Request is one call. See host.Request for the meaning of the fields.
type Request struct {
	ID        string
	MessageID string
	Command   string
	Name      string
	Arguments json.RawMessage
	Session   string
	InOrder   bool
	From      string
	Workspace string
	Branch    string
	Preview   bool
	Trace     string
	Principal *Principal
	Endpoint  string
	Exchange  *call.Exchange
	Client    *tool.ClientInfo

	Continuable  bool
	Continuation []byte
	Once         string
	Ledger       call.Ledger
}

// Pending is a request that is queued in its session.
type Pending struct {
	inner  *dispatch.Pending
	client call.Client
	failed *tool.Result
	done   func()
	flight *call.Running
	// preview is set for a request with Preview.
	preview *preview
}

// Begin resolves and queues a request without blocking. The requests of one session take effect in the order of their
// Begin calls. The caller must call Run on the result.
func (e *Engine) Begin(req Request, client Client) *Pending {
	return e.begin(e.reloader.Current(), req, client)
}

// begin is like Begin. One generation decides everything until the request is queued, even if a reload replaces the
// generation meanwhile. Only a request whose plugin was retired moves on to the newest generation.
func (e *Engine) begin(g *generation.Generation, req Request, client Client) *Pending {
	if req.ID == "" {
		req.ID = e.ids.next()
	}
	if err := req.limitTexts(); err != nil {
		return e.refused(req, err)
	}
	a := &arrival{unmount: func() {}, free: func() {}, left: func() {}}
	if err := e.arrive(g, a, req); err != nil {
		if a.ticket != nil {
			a.ticket.Abandon()
		}
		a.leave()
		return e.refused(req, err)
	}
	s := &a.session
	r := e.dispatchRequest(req, *s)
	r.Changed = e.reloader.Builder.Calls.Roots.Forget
	inner := g.Dispatch.Begin(r, a.ticket)
	flight := &call.Running{ID: req.ID, Session: s.ID, Workspace: s.Workspace, Principal: s.Principal.Name,
		Command: req.Command, Name: req.Name, Arguments: req.Arguments}
	e.flights.Begin(flight)
	return &Pending{inner: inner, client: e.client(g, client, flight), flight: flight, preview: a.shown, done: func() {
		e.flights.End(flight)
		a.leave()
	}}
}

// arrival is a request that arrives: its session, its place in the line of the session, and what it uses until it ends.
type arrival struct {
	session             call.Session
	ticket              *scheduler.Ticket // nil before the request is queued
	shown               *preview          // nil for a request without Preview
	unmount, free, left func()
}

// leave releases what the request uses.
func (a *arrival) leave() {
	a.unmount()
	a.free()
	a.left()
}

// arrive queues a request in the line of its session, and loads the session only then: from here on, only the earlier
// calls in the line can change it. If arrive returns an error, the caller must release what the arrival has by then.
func (e *Engine) arrive(g *generation.Generation, a *arrival, req Request) error {
	at, err := e.locate(g, req)
	if err != nil {
		return err
	}
	if req.Preview { // it gets a session of its own, with a line of its own
		a.session, err = e.open(req, at)
	} else {
		lines := e.reloader.Builder.Calls.Scheduler
		a.ticket = lines.Enqueue(at.key)
		if a.session, err = e.open(req, at); err == nil && a.session.ID != at.key { // the key is that of a session in another workspace
			a.ticket.Abandon()
			at.key = a.session.ID
			a.ticket = lines.Enqueue(at.key)
			a.session, err = e.open(req, at)
		}
	}
	if err == nil && at.branch != "" {
		err = e.mounted(g, a)
	} else if e.branches.Store != nil {
		a.session.Branches = e.branchless
	}
	if err == nil && req.Preview {
		err = e.previewed(g, a, req)
	}
	if err != nil {
		return err
	}
	left, err := e.running.enter()
	if err != nil {
		return err
	}
	a.left = left
	free, err := e.busy.enter(at.who)
	if err != nil {
		return err
	}
	a.free = free
	a.session.Ledger = req.Ledger
	return nil
}

// previewed makes the branch of a preview, and queues the request in the line of the preview's own session.
func (e *Engine) previewed(g *generation.Generation, a *arrival, req Request) error {
	top := a.session.Top()
	s, shown, err := e.previewOf(g, a.session, true)
	if err != nil {
		return err
	}
	if s.Top() != top && (strings.Contains(req.Command, top) || bytes.Contains(req.Arguments, []byte(top))) {
		shown.Drop()
		return tool.Errorf(tool.InvalidArguments, "The call names %s, and a preview here is a copy of the files in another directory. Use relative paths.", top)
	}
	a.session, a.shown, a.unmount = s, shown, join(shown.unmount, a.unmount)
	a.ticket = e.reloader.Builder.Calls.Scheduler.Enqueue(s.ID)
	return nil
}

// client returns a client that applies the operator's decisions to the permission requests of a call.
func (e *Engine) client(g *generation.Generation, c Client, flight *call.Running) call.Client {
	onAsk := cmp.Or(e.opts.OnAsk, g.Config.Host.OnAsk)
	if onAsk == "" && !e.opts.Prompt {
		onAsk = "deny"
	}
	return answer.Client(e.asking.until, c, onAsk, flight)
}

// refused returns a request that failed before it was queued.
func (e *Engine) refused(req Request, err error) *Pending {
	failure := tool.AsError(err).From(tool.SourceHost)
	e.auditRefused(req, failure)
	e.reloader.Builder.Calls.Metrics.Tool(telemetry.None).Ended(telemetry.Call{Kind: failure.Kind})
	return &Pending{failed: &tool.Result{Error: failure, Run: tool.Run{CallID: req.ID}}}
}

// Native reports whether the request is a native command.
func (p *Pending) Native() bool { return p.inner != nil && p.inner.Native() }

// Run runs the request. If ctx is canceled, the tool is canceled. Run must be called once.
func (p *Pending) Run(ctx context.Context) *tool.Result {
	if p.failed != nil {
		return p.failed
	}
	ctx, stop := p.flight.Context(ctx)
	defer stop()
	if p.preview == nil {
		defer p.done()
		return p.inner.Run(ctx, p.client)
	}
	res := p.inner.Run(ctx, p.client)
	p.done() // end the call's use of the preview, before it is shown and possibly discarded
	return p.preview.show(res)
}

// Explain returns the interpretation of a command without running it.
func (e *Engine) Explain(req Request) *router.Command {
	g, cwd := e.Current(), e.opts.Workspace
	if s, err := e.session(g, req); err == nil {
		cwd = s.Cwd
	}
	return g.Dispatch.Explain(req.Command, cwd)
}

func (e *Engine) dispatchRequest(req Request, s call.Session) call.Request {
	out := call.Request{
		Exchange: req.Exchange, Client: req.Client, Continuable: req.Continuable, Continuation: req.Continuation,
		ID: req.ID, MessageID: req.MessageID, Command: req.Command, Name: req.Name, Arguments: req.Arguments,
		Session: s, InOrder: req.InOrder,
	}
	if req.Trace != "" {
		out.Trace = telemetry.ParseTrace(req.Trace)
	}
	return out
}

// Limits of the texts in a request, in bytes. The audit log and the database keep these texts for each call.
const (
	maxName      = 256
	maxWorkspace = 4096
)

// limitTexts shortens the texts of a request that are too long. It returns an error if a text was too long.
func (r *Request) limitTexts() (err error) {
	for _, t := range []struct {
		what string
		text *string
		max  int
	}{
		{"tool name", &r.Name, maxName}, {"session id", &r.Session, maxName}, {"workspace", &r.Workspace, maxWorkspace},
		{"call id", &r.ID, maxName}, {"message id", &r.MessageID, maxName},
	} {
		if len(*t.text) > t.max {
			*t.text = strings.ToValidUTF8((*t.text)[:t.max], "")
			err = tool.Errorf(tool.InvalidArguments, "The %s is longer than %d bytes. Use a shorter one.", t.what, t.max)
		}
	}
	return err
}

// busy counts the running and queued calls of each principal with a limit.
type busy struct {
	mu sync.Mutex
	by map[string]int
}

// enter counts a call until the caller calls done. It returns an error if the principal has reached its
// limit.
func (b *busy) enter(who *Principal) (done func(), err error) {
	if who.MaxCalls == 0 {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = make(map[string]int)
	}
	if b.by[who.Name] >= who.MaxCalls {
		return nil, tool.Errorf(tool.Unavailable, "Principal %q already has %d calls, which is its limit. Wait for one of them to end, or ask the operator for a higher limit: limits { calls = … }.", who.Name, who.MaxCalls)
	}
	b.by[who.Name]++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.by[who.Name]--; b.by[who.Name] == 0 {
			delete(b.by, who.Name)
		}
	}), nil
}

// auditRefused writes an audit entry for a request without a valid session.
func (e *Engine) auditRefused(req Request, err *tool.Error) {
	args := req.Arguments
	if req.Name == "" {
		args, _ = json.Marshal(map[string]string{"command": req.Command}) // the error is ignored, because strings can always be encoded
	}
	who := e.local
	if req.Principal != nil {
		who = req.Principal
	}
	e.state.AddAudit(state.AuditEntry{
		Principal: who.Name, At: time.Now(), Session: req.Session, Workspace: req.Workspace, Call: req.ID,
		Tool: req.Name, Arguments: args, Outcome: string(err.Kind), Error: err.Message,
	})
}

// ids generates the ids of calls. The ids are unique in this process, and other processes cannot easily guess
// them.
type ids struct {
	prefix string
	last   *atomic.Uint64
}

func newIDs() ids {
	var b [6]byte
	_, _ = rand.Read(b[:]) // the error is ignored, because Read always succeeds
	return ids{prefix: hex.EncodeToString(b[:]) + "-", last: new(atomic.Uint64)}
}

func (i ids) next() string { return i.prefix + strconv.FormatUint(i.last.Add(1), 36) }
