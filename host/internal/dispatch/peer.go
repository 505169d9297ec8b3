package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"
)

// peer is the host as the plugin sees it during a call: the front, the policy, and what the session knows
// about files.
type peer struct {
	Front
	d    *Dispatcher
	call *Call
}

// Ask implements [tool.Peer]. The policy decides on a permission that the tool asks for while it runs, as it
// does on the arguments.
func (p *peer) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission == nil {
		return p.Front.Ask(ctx, ask)
	}
	return p.d.Policy.Permit(ctx, question(p.call), ask.Permission, p.Front, p.d.answers(p.call))
}

// FileStates implements [tool.Peer].
func (p *peer) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	out := make(map[string]tool.FileState, len(paths))
	for _, path := range paths {
		s, ok, err := p.d.State.FileState(p.call.Request.Session.ID, path)
		if err != nil {
			return nil, err
		}
		if ok {
			out[path] = s
		}
	}
	return out, nil
}
