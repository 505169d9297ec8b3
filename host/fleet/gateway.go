package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/placement"
	"toolhost.dev/host/router"
)

// Codes of errors of a fleet, of the kind unavailable.
const (
	// CodeUnknown means that a call was lost after it began, so that it may have had effects.
	CodeUnknown = 520
	// CodeNoQuorum means that the node cannot reach the coordinators, so it may not run calls of shared workspaces.
	CodeNoQuorum = 521
	// CodeJournalFull means that the journal of the fleet has no room.
	CodeJournalFull = 522
)

// line keeps the order of the requests of a session at this gateway.
type line struct {
	last  chan struct{} // closed when the last request is queued at the owner
	users int
}

// request is a request at its gateway. It implements [host.Queued].
type request struct {
	f         *Fleet
	client    host.Client
	principal *host.Principal
	wire      hop.Request
	text      []byte            // the wire form in JSON
	digest    [sha256.Size]byte // of the text
	key       string
	id        string // id of the call
	once      bool   // whether the client chose the id
	hold      string // see [hop.Holds]
	callID    string // id of the call for the result
	trace     string
	workspace *host.FleetWorkspace // nil if this node does not know the workspace
	before    chan struct{}        // closed when earlier requests are queued
	queued    func()
	reached   bool // whether a node has queued the call since the last attempt
	failed    *tool.Result
}

// Begin implements [host.Fleet].
func (f *Fleet) Begin(req host.Request, client host.Client) host.Queued {
	name, ok := f.names(req.Workspace)
	if !ok {
		return nil
	}
	workspace, node := placement.Split(name)
	who := req.Principal
	if who == nil {
		who = host.LocalUser()
	}
	r := &request{f: f, client: client, principal: who, trace: req.Trace, id: req.Once, once: req.Once != "",
		callID: req.ID, workspace: f.settings.Workspace(workspace)}
	if r.client == nil {
		r.client = hop.Silent{}
	}
	if r.id == "" {
		r.id = rand.Text()
	}
	r.hold = rand.Text()
	if req.Branch != "" || req.Preview {
		r.failed = tool.Failed(tool.Errorf(tool.InvalidArguments, "Sessions of the fleet have no branches and no previews yet, because these stay on one node. Leave branch and preview out, or work on a node itself: name the directory of the workspace.").From(tool.SourceHost))
		return r
	}
	if len(r.id) > maxID {
		r.failed = tool.Failed(tool.Errorf(tool.InvalidArguments, "The id of the call is longer than %d bytes. Use a shorter one.", maxID).From(tool.SourceHost))
		return r
	}
	r.wire = hop.RequestOf(&req, name)
	var err error
	if r.text, err = json.Marshal(r.wire); err != nil {
		r.failed = tool.Failed(tool.Errorf(tool.InvalidArguments, "The arguments are not JSON: %w.", err).
			From(tool.SourceHost))
		return r
	}
	r.digest = sha256.Sum256(r.text)
	r.key = directory.Key(who.Owner(), name, req.Session)
	if err := f.check(workspace, node, strings.Contains(name, "@")); err != nil {
		r.failed = tool.Failed(err.From(tool.SourceHost))
		return r
	}
	r.enqueue()
	return r
}

// maxID is the maximum length of the id of a call. It is limited because the journal contains the ids.
const maxID = 256

// names returns the name of the workspace of a request. If the request names no workspace, names returns the only
// workspace of the fleet, or of the node that the request names. The result ok is false if the request is not for the
// fleet: it names no workspace and the fleet has several, or it contains a directory.
func (f *Fleet) names(workspace string) (name string, ok bool) {
	switch {
	case workspace == "":
		if len(f.settings.Workspaces) == 1 && !f.settings.Outward {
			return f.settings.Workspaces[0].Name, true
		}
		return "", false
	case strings.ContainsAny(workspace, "/\\"):
		return "", false
	}
	if name, node := placement.Split(workspace); name == "" {
		if p := f.lease.Peer(node); p != nil && len(p.Workspaces) == 1 {
			for only := range p.Workspaces {
				return only + "@" + node, true
			}
		}
	}
	return workspace, true
}

// check returns an error if no node can have a session of a workspace. named means that the request names the node,
// which must have the workspace.
func (f *Fleet) check(workspace, node string, named bool) *tool.Error {
	peers, all := f.lease.Peers(), f.workspaces()
	switch p := peers[node]; {
	case named && p == nil:
		names := slices.Sorted(maps.Keys(peers))
		return tool.Errorf(tool.InvalidArguments, "The fleet has no node %q.%s The nodes are %s.", node, suggest.DidYouMean(node, names), strings.Join(names, ", "))
	case workspace == "":
		return tool.Errorf(tool.InvalidArguments, "The node %s has several workspaces. Name one of them, such as %s.", node,
			strings.Join(slices.Sorted(maps.Keys(p.Workspaces)), "@"+node+", ")+"@"+node)
	case named && p.Workspaces[workspace].Path == "":
		names := slices.Sorted(maps.Keys(p.Workspaces))
		return tool.Errorf(tool.InvalidArguments, "The node %s has no workspace %q.%s It has %s.", node, workspace, suggest.DidYouMean(workspace, names),
			strings.Join(names, ", "))
	case !slices.Contains(all, workspace):
		return tool.Errorf(tool.InvalidArguments, "The fleet has no workspace %q.%s The workspaces are %s.", workspace, suggest.DidYouMean(workspace, all),
			strings.Join(all, ", "))
	}
	return nil
}

// workspaces returns the names of the workspaces of all nodes.
func (f *Fleet) workspaces() (out []string) {
	for _, w := range f.settings.Workspaces {
		out = append(out, w.Name)
	}
	for _, p := range f.lease.Peers() {
		for name := range p.Workspaces {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// enqueue puts the request behind the earlier requests of its session.
func (r *request) enqueue() {
	f, mine := r.f, make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lines[r.key]
	if l == nil {
		l = &line{}
		f.lines[r.key] = l
	}
	r.before, l.last = l.last, mine
	l.users++
	done := false
	r.queued = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if done {
			return
		}
		done = true
		close(mine)
		if l.users--; l.users == 0 && f.lines[r.key] == l {
			delete(f.lines, r.key)
		}
	}
}

// Native implements [host.Queued]. All nodes have the same tools, so this node can decide it without the owner.
func (r *request) Native() bool {
	if r.wire.Command == "" {
		return false
	}
	return r.f.host.Explain(host.Request{Command: r.wire.Command}).Layer == router.Native
}

// Run implements [host.Queued].
func (r *request) Run(ctx context.Context) *tool.Result {
	if r.failed != nil {
		return r.failed
	}
	defer r.queued()
	if r.before != nil {
		select {
		case <-r.before:
		case <-ctx.Done():
			return r.refused(ctx, tool.Errorf(tool.Canceled, "The call did not start, because its caller ended it while it waited for earlier calls. Nothing was run."))
		}
	}
	if err := r.f.admit(ctx, r.principal); err != nil {
		return r.refused(ctx, err)
	}
	res := r.route(ctx)
	res.Run.CallID = cmp.Or(r.callID, res.Run.CallID, r.id)
	return res
}

// refused returns the result of a call that did not run.
func (r *request) refused(_ context.Context, err error) *tool.Result {
	return &tool.Result{Error: tool.AsError(err).From(tool.SourceHost), Run: tool.Run{CallID: r.callID}}
}

// verdict is the outcome of one attempt.
type verdict int

const (
	answered verdict = iota // the result is final
	moved                   // another node has the session
	absent                  // the node did not answer, and nothing ran
	lost                    // the node was lost, and the call may have run
)

// attempt describes the outcome of one attempt to run a call.
type attempt struct {
	verdict verdict
	result  *tool.Result
	// owner is the node that has the session. It is set only if verdict is moved and the node is known.
	owner string
	why   string
	code  int    // code of the error, or 0
	tool  string // if verdict is lost: the tool that began to run
}

// problem returns the kind of the problem for traces. It returns "" if there was no problem.
func (a attempt) problem() string {
	switch {
	case a.verdict == lost:
		return "lost"
	case a.verdict != answered:
		return "not run"
	case a.result != nil && a.result.Error != nil:
		return string(a.result.Error.Kind)
	}
	return ""
}

// route finds the owner of the session and runs the call there. If an attempt certainly ran nothing, route tries again.
func (r *request) route(ctx context.Context) *tool.Result {
	f := r.f
	patience := f.settings.Lease*5/4 + routePatience
	var (
		last  attempt
		hint  string
		local int
	)
	for began := time.Now(); ; {
		owner, shared, err := f.locate(r, hint)
		if err != nil {
			return r.refused(ctx, err)
		}
		last = r.attempt(ctx, owner)
		switch last.verdict {
		case answered:
			return last.result
		case lost:
			return r.unknown(owner, last.tool)
		case moved:
			hint = last.owner
		case absent:
			hint = ""
			if local++; !shared && local >= localTries {
				return r.refused(ctx, tool.Errorf(tool.Unavailable, "The node %s, which alone has the files of the workspace %s, does not answer (%s). The session goes on when the node is back. Nothing was run.", owner, r.wire.Workspace, last.why))
			}
			r.client.Progress("waits for node "+owner, map[string]any{
				"activity": "waits for node " + owner + ", which does not answer",
			})
		}
		if r.reached { // the node had the call, perhaps for long, and was lost before the call ran
			began, r.reached = time.Now(), false
		}
		if time.Since(began) > patience {
			err := tool.Errorf(tool.Unavailable, "No node could run the call within %s: %s. Nothing was run. Try again, and see toolhost fleet status.", patience.Round(time.Second), strings.TrimSuffix(last.why, "."))
			if last.code != 0 {
				err = err.WithCode(last.code)
			}
			return r.refused(ctx, err.WithRetryAfter(time.Second))
		}
		select {
		case <-ctx.Done():
			return r.refused(ctx, tool.Errorf(tool.Canceled, "The call did not start, because its caller ended it while it waited for a node (%s). Nothing was run.", last.why))
		case <-time.After(min(time.Since(began)/4+10*time.Millisecond, 500*time.Millisecond)):
		}
	}
}

const (
	// routePatience is the time that a call waits for an owner, in addition to the time until a dead node is replaced.
	routePatience = 5 * time.Second
	// localTries is how often a call tries to reach a node if only this node has the files.
	localTries = 5
)

// attempt runs the call on a node.
func (r *request) attempt(ctx context.Context, node string) attempt {
	if node != r.f.node() {
		return r.forward(ctx, node)
	}
	in := &incoming{
		key: r.key, id: r.id, once: r.once, gateway: r.f.node(), principal: r.principal, wire: &r.wire,
		digest: r.wire.Content(), trace: r.trace,
		queued: func(bool) { r.isQueued() }, begun: func(context.Context, string, bool) error { return nil },
	}
	res, refusal := r.f.runHere(ctx, in, r.client)
	if refusal == nil {
		return attempt{result: res}
	}
	return refusal.attempt()
}

// isQueued records that a node has queued the call.
func (r *request) isQueued() {
	r.reached = true
	r.queued()
}

// unknown returns the result of a call that was lost after it began.
func (r *request) unknown(node, name string) *tool.Result {
	r.f.metrics.unknown.Add(1)
	return &tool.Result{Error: outcomeUnknown(node, name), Run: tool.Run{CallID: r.callID, Tool: name}}
}

func outcomeUnknown(node, name string) *tool.Error {
	if name == "" {
		name = "the call"
	} else {
		name = "`" + name + "`"
	}
	return tool.Errorf(tool.Unavailable, "The node %s was lost while %s ran; it may have happened. Read the files before you repeat it.", node, name).WithCode(CodeUnknown).From(tool.SourceHost)
}

// locate returns the node that has the session, or else a node on which the session can begin.
func (f *Fleet) locate(r *request, hint string) (node string, shared bool, err error) {
	if hint != "" && f.lease.Peer(hint) != nil {
		return hint, true, nil
	}
	e := f.sessions.Find(r.key)
	if e == nil {
		node, err = f.place(r, nil)
		return node, true, err
	}
	p := f.lease.Peer(e.Owner)
	switch {
	case !e.Shared:
		return e.Owner, false, nil
	case p != nil && !p.Ended(e.Incarnation),
		p != nil && p.Node == f.node() && !p.Fenced && placement.Lacks(p, e.Workspace, e) == "":
		return e.Owner, true, nil
	}
	node, err = f.place(r, e)
	return node, true, err
}

// refusal is the reason why a node did not run a call. It means that nothing ran there.
type refusal struct {
	reason verdict
	owner  string
	epoch  uint64
	err    error
}

func (r *refusal) attempt() attempt {
	if r.reason == answered {
		return attempt{result: &tool.Result{Error: tool.AsError(r.err).From(tool.SourceHost)}}
	}
	out := attempt{verdict: r.reason, owner: r.owner, why: "no node has the session"}
	if r.err != nil {
		out.why = r.err.Error()
	}
	var e *tool.Error
	if errors.As(r.err, &e) && e.Kind == tool.Unavailable {
		out.code = e.Code
	}
	return out
}

// errNoPlace explains why no node takes a new session.
func errNoPlace(why []string) error {
	if len(why) == 0 {
		return errors.New("the fleet has no node")
	}
	slices.Sort(why)
	return tool.Errorf(tool.Unavailable, "No node takes the session: %s. Wait for a node, or see toolhost fleet status.", strings.Join(why, ", ")).WithRetryAfter(time.Second)
}
