package call

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
)

// Peer returns the services of the host for the plugin during the call. The services use the client, the policy, and
// the session's file states.
func (c *Call) Peer(p *policy.Policy, db *state.DB) tool.Peer {
	return &peer{Client: c.Shown, call: c, policy: p, state: db}
}

type peer struct {
	Client
	call   *Call
	policy *policy.Policy
	state  *state.DB
	// noModel is set when the user has refused that the plugin uses the client's model in this call.
	noModel atomic.Bool
}

// Ask implements [tool.Peer]. The policy decides on permission requests of a running tool in the same way as on the
// call itself.
func (p *peer) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Call != nil {
		return p.callTool(ctx, ask.Call)
	}
	a, err := p.ask(ctx, ask)
	if errors.Is(err, ErrStopped) && ctx.Err() == nil { // the tool can go on without an answer
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: err.Error()}, nil
	}
	return a, err
}

func (p *peer) ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	switch {
	case len(ask.Requests) > 0:
		return p.request(ctx, ask)
	case ask.Permission == nil:
		return p.Client.Ask(ctx, ask)
	}
	a, answered, err := p.policy.Permit(ctx, p.call.Question(), ask.Permission, p.Client, p.call.Answers(p.state))
	p.call.answered(answered)
	return a, err
}

// callTool calls another tool for the plugin.
func (p *peer) callTool(ctx context.Context, t *tool.ToolCall) (tool.Answer, error) {
	if p.call.CallTool == nil {
		return tool.Answer{Outcome: tool.Declined, Message: "only calls of tools can call other tools"}, nil
	}
	b, err := json.Marshal(p.call.CallTool(ctx, t))
	return tool.Answer{Outcome: tool.Accepted, Content: b}, err
}

// KeepsDirectory implements [tool.DirectoryKeeper].
func (p *peer) KeepsDirectory() { p.call.Ticket.Keeps() }

// FileStates implements [tool.Peer].
func (p *peer) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	out := make(map[string]tool.FileState, len(paths))
	for _, path := range paths {
		s, ok, err := p.state.FileState(p.call.Request.Session.ID, path)
		if err != nil {
			return nil, err
		}
		if ok {
			out[path] = s
		}
	}
	return out, nil
}
