package sdk

import (
	"context"
	"encoding/json"
	"fmt"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// Call is one call as its handler sees it. Its methods are safe for concurrent
// use, and do nothing (or fail) once the handler has returned.
type Call struct {
	*tool.Call
	peer  tool.Peer
	files func(roots []tool.Root) (*workspace.Workspace, error)
}

// NewCall joins a call and its peer. Handlers get theirs from [Serve]; this is for
// tests that call a handler directly.
func NewCall(c *tool.Call, peer tool.Peer) *Call {
	return &Call{Call: c, peer: peer, files: workspace.Open}
}

// Workspace returns the files the call may touch. It is shared between calls with
// the same roots; do not close it.
func (c *Call) Workspace() (*workspace.Workspace, error) { return c.files(c.Roots) }

// Progress says what the call is doing: a short title, and metadata for a user
// interface (may be nil).
func (c *Call) Progress(title string, metadata map[string]any) { c.peer.Progress(title, metadata) }

// Output passes on a piece of what the tool prints, as it comes. The result must
// be complete without it. The chunk may be reused when Output returns; it blocks
// while the host is slow.
func (c *Call) Output(s tool.Stream, chunk []byte) { c.peer.Output(s, chunk) }

// Permit asks for a permission and reports whether it was given. With nobody to
// ask, the host's configured default decides. The error is a [tool.Error] of kind
// PermissionDenied that says why, or the end of ctx.
func (c *Call) Permit(ctx context.Context, p tool.Permission) error {
	a, err := c.peer.Ask(ctx, tool.Ask{Permission: &p})
	if err != nil {
		return err
	}
	if a.Outcome == tool.Accepted {
		return nil
	}
	why := a.Message
	if why == "" {
		why = string(a.Outcome)
	}
	return Errorf(tool.PermissionDenied, "Permission %s was not given for %q: %s", p.Kind, p.Title, why)
}

// Question asks the user. The outcome says whether there was an answer; the error
// is the end of ctx.
func (c *Call) Question(ctx context.Context, q tool.Question) (tool.Answer, error) {
	return c.peer.Ask(ctx, tool.Ask{Question: &q})
}

// FileState returns the state of a file as the session last read or wrote it; ok is
// false when the session does not know the file. path is absolute and without
// symbolic links.
func (c *Call) FileState(ctx context.Context, path string) (state tool.FileState, ok bool, err error) {
	states, err := c.peer.FileStates(ctx, path)
	if err != nil {
		return state, false, err
	}
	state, ok = states[path]
	return state, ok, nil
}

// Data marshals structured data for a result. It panics on a type that JSON does
// not have, which is a mistake in the program.
func Data(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sdk: structured data of type %T: %v", v, err))
	}
	return b
}
