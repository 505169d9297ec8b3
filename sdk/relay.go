package sdk

import (
	"context"
	"encoding/json"
	"time"

	"toolhost.dev/sdk/internal/lazyctx"
	"toolhost.dev/sdk/tool"
)

// Relay offers prompts, resources, completion and logging to the MCP clients of the host.
type Relay struct {
	// Items returns the offered features. It is called after each call of [Plugin.Discover], or once if Discover is
	// nil.
	Items func() []tool.Item
	// Exchange carries out one request of a client. The method is in call.Method, and its parameters are in
	// call.Arguments. [tool.Result.Data] is the result, as MCP defines it.
	Exchange func(ctx context.Context, call *Call) (*Result, error)
	// Listen calls notify for each notification that belongs to no call. It returns after ctx ends. A nil Listen means
	// that the plugin sends no such notifications.
	Listen func(ctx context.Context, notify func(tool.Notification)) error
}

// Exchange implements [tool.Relay].
func (r *runner) Exchange(parent context.Context, call *tool.Call, peer tool.Peer) (res *tool.Result) {
	if r.plugin.Relay == nil || r.plugin.Relay.Exchange == nil {
		return tool.Failed(tool.Errorf(tool.NotFound, "Plugin %s does not support %s.", r.plugin.Name, call.Method))
	}
	ctx := lazyctx.New(parent, time.Time{}, nil)
	defer ctx.Cancel(nil)
	if !r.enter(call, ctx) {
		return tool.Failed(tool.Errorf(tool.Unavailable, "Plugin %s is being replaced and accepts no more requests. Try again.", r.plugin.Name))
	}
	defer r.leave(call)
	defer func() {
		if p := recover(); p != nil {
			res = tool.Failed(panicked(tool.Errorf(tool.Internal, "Plugin %s panicked in %s: %v. This is a bug in the plugin, and its log contains the stack.", r.plugin.Name, call.Method, p), call.Method, p))
		}
	}()
	res, err := r.plugin.Relay.Exchange(ctx, &Call{Call: call, peer: peer, files: r.workspace, stateDir: r.stateDir})
	switch {
	case err != nil:
		if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
			err = cause
		}
		return tool.Failed(err)
	case res == nil:
		return tool.Failed(tool.Errorf(tool.Internal, "Plugin %s answered %s with neither a result nor an error. Report this to the plugin's author.", r.plugin.Name, call.Method))
	}
	return res
}

// Listen implements [tool.Relay].
func (r *runner) Listen(ctx context.Context, notify func(tool.Notification)) error {
	if r.plugin.Relay == nil || r.plugin.Relay.Listen == nil {
		<-ctx.Done()
		return nil
	}
	return r.plugin.Relay.Listen(ctx, notify)
}

// Requests sends all requests at the same time to the client of MCP that made the call, and waits for the answers. The
// returned map contains the result of each request under the request's key. The map is nil if the client was not asked
// or did not answer; the outcome is the reason. If ctx ends, Requests returns an error.
func (c *Call) Requests(ctx context.Context,
	requests ...tool.ClientRequest) (map[string]json.RawMessage, tool.Outcome, error) {
	return c.RequestsFrom(ctx, nil, requests...)
}

// RequestsFrom is like [Call.Requests], but another process can continue the call. For this, the client sends its
// answers to another host process. The handler is then called there, and [tool.Call.Continuation] contains this
// continuation. The handler must send the same requests with the same continuation, and gets the answers at once.
func (c *Call) RequestsFrom(ctx context.Context, continuation []byte,
	requests ...tool.ClientRequest) (map[string]json.RawMessage, tool.Outcome, error) {
	a, err := c.peer.Ask(ctx, tool.Ask{Requests: requests, Continuation: continuation})
	if err != nil || a.Outcome != tool.Accepted {
		return nil, a.Outcome, err
	}
	var results map[string]json.RawMessage
	if err := json.Unmarshal(a.Content, &results); err != nil {
		return nil, tool.NobodyToAsk, nil //nolint:nilerr // without valid results, the host did not pass the requests on to the client
	}
	return results, a.Outcome, nil
}

// Form asks the user to fill in a form. The schema is a JSON Schema of the type object, whose properties are texts,
// numbers, booleans and choices. If the outcome is Accepted, the content is a JSON object. Otherwise it is nil. If ctx
// ends, Form returns an error.
func (c *Call) Form(ctx context.Context, message string,
	schema json.RawMessage) (content json.RawMessage, outcome tool.Outcome, err error) {
	params := Data(struct {
		Mode            string          `json:"mode"`
		Message         string          `json:"message"`
		RequestedSchema json.RawMessage `json:"requestedSchema"`
	}{"form", message, schema})
	results, outcome, err := c.Requests(ctx, tool.ClientRequest{Key: "form", Method: tool.MethodElicit, Params: params})
	if err != nil || outcome != tool.Accepted {
		return nil, outcome, err
	}
	var answer struct {
		Action  string
		Content json.RawMessage
	}
	if json.Unmarshal(results["form"], &answer) != nil || answer.Action != "accept" {
		return nil, tool.Declined, nil //nolint:nilerr // the caller gets the outcome
	}
	return answer.Content, tool.Accepted, nil
}

// Log sends a log message to the client of MCP that made the call, if the client wants messages of this level.
func (c *Call) Log(m tool.LogMessage) {
	if l, ok := c.peer.(tool.Logger); ok {
		l.Log(m)
	}
}
