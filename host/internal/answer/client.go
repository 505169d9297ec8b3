// Package answer handles permission requests and forms for clients that do not handle them. It answers permission
// requests by the operator's decision. For a client that supports only questions, it asks one question for each field
// of a form. [Client] wraps the client of a call.
package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// Client returns a client that answers permission requests by the operator's decision: "allow" or "deny". If the
// decision is empty, it passes them to c. If c is nil, no person can be asked. When the context "asking" ends,
// nobody is asked any more: the error of an ask that waits for a person is the cause of the end.
func Client(asking context.Context, c call.Caller, decision string, flight *call.Running) call.Client {
	if c == nil {
		c = Nobody{}
	}
	return &client{Client: call.Complete(c), onAsk: decision, flight: flight, asking: asking}
}

// client answers permission requests according to the operator's decisions. It never answers other questions, because
// only the user can answer them.
type client struct {
	call.Client
	onAsk  string
	flight *call.Running
	asking context.Context
}

// Output implements [call.Client]. It keeps the end of the output for people who watch the call.
func (f *client) Output(s tool.Stream, p []byte) {
	f.flight.Output(p)
	f.Client.Output(s, p)
}

// Ask implements [call.Client]. While it waits, the list of running calls shows that the call waits for an answer.
func (f *client) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission != nil {
		switch f.onAsk {
		case "allow":
			return tool.Answer{Outcome: tool.Accepted}, nil
		case "deny":
			return tool.Answer{Outcome: tool.Declined, Message: "permission requests are denied here; run with --on-ask prompt or allow, or set on_ask in the configuration"}, nil
		}
	}
	defer f.flight.Ask(ask)()
	if len(ask.Requests) > 0 &&
		!slices.ContainsFunc(ask.Requests, func(r tool.ClientRequest) bool { return r.Method == tool.MethodElicit }) {
		return f.pass(ctx, ask) // no person is asked
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(f.asking, func() { end(context.Cause(f.asking)) })()
	a, err := f.pass(ctx, ask)
	if why := context.Cause(f.asking); err != nil && why != nil && errors.Is(context.Cause(ctx), why) {
		err = fmt.Errorf("nobody answered, because %w", why)
	}
	return a, err
}

// pass lets the client answer.
func (f *client) pass(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if len(ask.Requests) > 0 && !f.AnswersRequests() { // the client is not one of MCP
		return answerRequests(ctx, f.Client, ask.Requests)
	}
	return f.Client.Ask(ctx, ask)
}

// ReachesPerson implements [call.Client].
func (f *client) ReachesPerson() bool {
	return f.Client.ReachesPerson() && f.onAsk != "allow" && f.onAsk != "deny"
}

// Decided implements [call.Client].
func (f *client) Decided() bool {
	return f.Client.Decided() || f.onAsk == "allow" || f.onAsk == "deny"
}

// Nobody is the client of a request whose caller has no client. It ignores all events.
type Nobody struct{}

// Progress does nothing.
func (Nobody) Progress(string, map[string]any) {}

// Output does nothing.
func (Nobody) Output(tool.Stream, []byte) {}

// Ask returns the answer that nobody could be asked.
func (Nobody) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "there is nobody to ask"}, nil
}

// Log does nothing.
func (Nobody) Log(tool.LogMessage) {}

// ReachesPerson returns false.
func (Nobody) ReachesPerson() bool { return false }

// Decided returns true.
func (Nobody) Decided() bool { return true }

// Parks returns false.
func (Nobody) Parks() bool { return false }

// AnswersRequests returns false.
func (Nobody) AnswersRequests() bool { return false }
