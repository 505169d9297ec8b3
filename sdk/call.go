package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// Call is one call, as passed to the handler of a tool. Its methods are safe for concurrent use. When the handler has
// returned, the methods do nothing or return an error.
type Call struct {
	*tool.Call
	peer  tool.Peer
	files func(roots []tool.Root) (*workspace.Workspace, error)
	// stateDir returns the plugin's state directory. A nil stateDir means that the plugin has none.
	stateDir func() string
}

// NewCall returns a Call of c with peer as its host. Handlers get their calls from [Serve]. Tests that call a handler
// directly can use NewCall; most tests use package tooltest.
func NewCall(c *tool.Call, peer tool.Peer) *Call {
	return &Call{Call: c, peer: peer, files: workspace.Open}
}

// Workspace returns the files that the call is allowed to access. Calls with the same roots share one workspace, so
// the handler must not close the workspace.
func (c *Call) Workspace() (*workspace.Workspace, error) { return c.files(c.Roots) }

// KeepsDirectory promises that the call will not change the working directory of the session. The host can then start
// later calls of the session that depend on the directory. Only long calls need to call KeepsDirectory.
func (c *Call) KeepsDirectory() {
	if k, ok := c.peer.(tool.DirectoryKeeper); ok {
		k.KeepsDirectory()
	}
}

// Progress reports the current activity of the call: a short title, and metadata for a user interface. The metadata
// can be nil.
func (c *Call) Progress(title string, metadata map[string]any) { c.peer.Progress(title, metadata) }

// ProgressOf reports the amount of work that is done and the total amount, both in the same unit. A total of 0 means
// that the total is unknown. Clients show a bar or a percentage.
func (c *Call) ProgressOf(title string, done, total float64) {
	metadata := map[string]any{tool.ProgressDone: done}
	if total > 0 {
		metadata[tool.ProgressTotal] = total
	}
	c.peer.Progress(title, metadata)
}

// Output sends a chunk of the tool's output. The chunk is only a preview; the result must contain the whole output.
// When Output returns, the caller can reuse the chunk. Output blocks while the host is slow.
func (c *Call) Output(s tool.Stream, chunk []byte) { c.peer.Output(s, chunk) }

// Permit asks for a permission and returns nil if it is granted. If it is denied, Permit returns a [*tool.Error] of
// kind PermissionDenied with the reason. If ctx ends, Permit returns the error of ctx. If no user can be asked, the
// host's configured default decides.
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
	return Errorf(tool.PermissionDenied, "The permission %s was refused for %q: %s", p.Kind, p.Title, why)
}

// Question asks the user and waits for the answer. The outcome in the answer reports whether the user answered. If ctx
// ends, Question returns an error.
func (c *Call) Question(ctx context.Context, q tool.Question) (tool.Answer, error) {
	return c.peer.Ask(ctx, tool.Ask{Question: &q})
}

// CallTool calls another tool of the host. The name is the tool's full name, such as "read" or "field:jira search".
// JSON must be able to represent the arguments as an object. The operator permits such calls with "calls" in the
// plugin's block. The host judges and records the call like a call of the agent, in the same session. If the tool
// fails, the error of the result is set. CallTool returns an error if the host does not make the call, or if ctx ends.
func (c *Call) CallTool(ctx context.Context, name string, arguments any) (*Result, error) {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	a, err := c.peer.Ask(ctx, tool.Ask{Call: &tool.ToolCall{Tool: name, Arguments: raw}})
	if err != nil {
		return nil, err
	}
	if a.Outcome != tool.Accepted {
		return nil, Errorf(tool.PermissionDenied, "The host does not call %s for this plugin: %s", name, cmp.Or(a.Message, string(a.Outcome)))
	}
	var r struct {
		Output      string
		Error       *tool.Error
		Title       string
		Metadata    map[string]any
		Data        json.RawMessage
		Attachments []Attachment
	}
	if err := json.Unmarshal(a.Content, &r); err != nil {
		return nil, fmt.Errorf("the host's result of %s is not valid: %w", name, err)
	}
	return &Result{Output: r.Output, Error: r.Error, Title: r.Title, Metadata: r.Metadata, Data: r.Data,
		Attachments: r.Attachments}, nil
}

// FileState returns the state that a file had when the session last read or wrote it. If the session does not know the
// file, ok is false. The path must be absolute and without symbolic links.
func (c *Call) FileState(ctx context.Context, path string) (state tool.FileState, ok bool, err error) {
	states, err := c.peer.FileStates(ctx, path)
	if err != nil {
		return state, false, err
	}
	state, ok = states[path]
	return state, ok, nil
}

// Data returns v as JSON for [tool.Result.Data]. It panics if JSON cannot represent v, because that is a programming
// error.
func Data(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sdk: structured data of type %T: %v", v, err))
	}
	return b
}
