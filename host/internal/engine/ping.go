package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/supervisor"
)

// Ping asks the mounted server of a field for its version and for the number of its tools and items. It starts the plugin
// if needed. The error is the reason why the server cannot be used.
func (e *Engine) Ping(ctx context.Context, field string) (*tool.Pong, error) {
	g := e.Current()
	p := g.Plugin(field)
	if p == nil {
		return nil, tool.Errorf(tool.NotFound, "No field is named %s.", field)
	}
	if p.Err != nil && !errors.Is(p.Err, generation.ErrUnstarted) {
		return nil, p.Err
	}
	if p.Description() == nil {
		if err := e.reloader.Builder.Describe(ctx, p); err != nil {
			return nil, err
		}
	}
	lease := (supervisor.Set{field: p.Process}).Reserve(field, "")
	if lease == nil {
		return nil, tool.Errorf(tool.Unavailable, "Plugin %s is being replaced. Try again.", field)
	}
	defer lease.Release()
	res := lease.Call(ctx, &tool.Call{ID: e.ids.next(), Method: tool.MethodPing, Arguments: json.RawMessage("{}")}, pingPeer{})
	if res.Error != nil {
		return nil, res.Error
	}
	out := new(tool.Pong)
	if err := json.Unmarshal(res.Data, out); err != nil {
		return nil, fmt.Errorf("the answer of plugin %s is not valid: %w", field, err)
	}
	return out, nil
}

// pingPeer is the peer of a ping, which belongs to no session.
type pingPeer struct{ silent }

// FileStates implements [tool.Peer].
func (pingPeer) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return map[string]tool.FileState{}, nil
}
