package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
)

// permit is step 3. Hooks and then the rules may give the call other arguments.
func (p *Pending) permit(ctx context.Context, call *tool.Call, front Front) error {
	if p.d.Hooks != nil {
		if err := p.before(ctx, call, front); err != nil {
			return err
		}
	}
	req := p.question(call)
	var err error
	p.decided, err = p.d.Policy.Check(ctx, req, front, p.answers())
	if len(p.decided.Rewritten) > 0 {
		p.args = req.Args
		call.Arguments = object(p.args)
		p.given = call.Arguments
	}
	return err
}

// recheck judges a call again that had to wait for others: they may have made a link of what was a
// directory, or have it lead elsewhere.
func (p *Pending) recheck(call *tool.Call) error {
	if !p.waited {
		return nil
	}
	d, err := p.d.Policy.Recheck(p.question(call))
	if err != nil {
		p.decided = d
	}
	return err
}

// question is the call as the rules see it.
func (p *Pending) question(call *tool.Call) *policy.Request {
	e := p.entry
	return &policy.Request{
		Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Call: call, Args: p.args,
		Workspace: p.req.Session.Workspace, Shell: e.Definition.Name == Shell,
	}
}

// Judge says what the rules make of a request, and asks and runs nothing.
func (d *Dispatcher) Judge(req Request) *policy.Decision {
	p := &Pending{d: d, req: req, started: time.Now()}
	p.command = d.route(req)
	p.entry, p.args, p.early = d.bind(p)
	if p.early != nil {
		out := &policy.Decision{Effect: policy.Allow, Reason: "nothing would run"}
		if p.early.Error != nil {
			out.Effect, out.Reason = policy.Deny, p.early.Error.Message
		}
		return out
	}
	return d.Policy.Judge(p.question(p.call()))
}

// answers are those of the call's session and workspace.
func (p *Pending) answers() policy.Answers {
	return &remembered{db: p.d.State, session: p.req.Session.ID, workspace: p.req.Session.Workspace}
}

type remembered struct {
	db                 *state.DB
	session, workspace string
}

// Recall implements [policy.Answers].
func (r *remembered) Recall(kind, tool, subject string) (allow, known bool) {
	allow, known, err := r.db.Recall(r.session, r.workspace, kind, tool, subject)
	return allow, known && err == nil // else it is asked again
}

// Remember implements [policy.Answers].
func (r *remembered) Remember(kind, tool, subject string, allow, workspace bool) error {
	a := state.Answer{Scope: state.ScopeSession, Owner: r.session, Kind: kind, Tool: tool, Subject: subject, Allow: allow, At: time.Now()}
	if workspace {
		a.Scope, a.Owner = state.ScopeWorkspace, r.workspace
	}
	return r.db.Remember(a)
}

// callPeer is the host as the running call sees it: the front, what the session knows, and
// the rules.
type callPeer struct {
	Front
	pending *Pending
	call    *tool.Call
}

func (p *Pending) peer(call *tool.Call, front Front) tool.Peer {
	return &callPeer{Front: front, pending: p, call: call}
}

// Ask implements [tool.Peer]. What a call asks for while it runs is decided by the rules,
// as it is when the arguments name it.
func (c *callPeer) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission == nil {
		return c.Front.Ask(ctx, ask)
	}
	p := c.pending
	return p.d.Policy.Permit(ctx, p.question(c.call), ask.Permission, c.Front, p.answers())
}

// FileStates implements [tool.Peer].
func (c *callPeer) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	out := make(map[string]tool.FileState, len(paths))
	for _, path := range paths {
		s, ok, err := c.pending.d.State.FileState(c.call.SessionID, path)
		if err != nil {
			return nil, err
		}
		if ok {
			out[path] = s
		}
	}
	return out, nil
}
