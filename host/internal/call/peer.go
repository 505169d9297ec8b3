package call

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

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

// maxLarge limits the large results that are in memory at the same time, in bytes. Two of the largest results fit, so
// that a single result that is slow to send or to shorten does not stop all others. A result needs about twice its size
// while it is decoded.
const maxLarge = 64 << 20

// large is the room for large results in this process. All hosts in it share its memory.
var large = semaphore.NewWeighted(maxLarge)

// Receive implements [tool.Receiver]. A call that is repeated gives back the room of its earlier result first, so that
// no call has room while it waits for more.
func (p *peer) Receive(ctx context.Context, bytes int64) error {
	p.call.leaveRoom()
	bytes = min(bytes, maxLarge)
	if !large.TryAcquire(bytes) && large.Acquire(ctx, bytes) != nil { // a canceled call can still send what it has
		return context.Cause(ctx)
	}
	p.call.room = bytes
	return nil
}

// leaveRoom releases the room of the call's result.
func (c *Call) leaveRoom() {
	if c.room > 0 {
		large.Release(c.room)
		c.room = 0
	}
}
