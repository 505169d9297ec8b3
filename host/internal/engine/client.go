package engine

import (
	"cmp"
	"context"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/inflight"
	"toolhost.dev/sdk/tool"
)

// Client receives the events of a running call and answers its asks.
type Client = call.Client

// client returns a client that first applies the operator's decisions to an ask and then asks c. A nil c cannot answer
// asks.
func (e *Engine) client(c Client, flight *inflight.Call) Client {
	onAsk := cmp.Or(e.opts.OnAsk, e.Current().Config.Host.OnAsk)
	if onAsk == "" && !e.opts.Prompt {
		onAsk = "deny"
	}
	if c == nil {
		c = silent{}
	}
	return &decidingClient{Client: c, onAsk: onAsk, flight: flight}
}

// decidingClient answers permission asks according to the operator's decisions. It never answers other questions,
// because only the user can answer them.
type decidingClient struct {
	Client
	onAsk  string
	flight *inflight.Call
}

// Output implements [Client]. It keeps the end of the output for people who watch the call.
func (f *decidingClient) Output(s tool.Stream, p []byte) {
	f.flight.Output(p)
	f.Client.Output(s, p)
}

func (f *decidingClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if len(ask.Requests) > 0 {
		if _, ok := f.Client.(interface{ AnswersRequests() }); ok { // a client of MCP
			return f.Client.Ask(ctx, ask)
		}
		return answerRequests(ctx, f.Client, ask.Requests)
	}
	if ask.Permission != nil {
		switch f.onAsk {
		case "allow":
			return tool.Answer{Outcome: tool.Accepted}, nil
		case "deny":
			return tool.Answer{Outcome: tool.Declined, Message: "asks are denied here; run with --on-ask prompt or allow, or set on_ask in the configuration"}, nil
		}
	}
	return f.Client.Ask(ctx, ask)
}

// Log implements [tool.Logger].
func (f *decidingClient) Log(m tool.LogMessage) { call.Log(f.Client, m) }

// ReachesPerson reports whether a person can answer an ask at once. If so, the policy also asks about paths outside the
// roots. A client that can reach a person implements a method with the same name.
func (f *decidingClient) ReachesPerson() bool {
	return call.ReachesPerson(f.Client) && f.onAsk != "allow" && f.onAsk != "deny"
}

// Decided reports whether asks are answered without a person.
func (f *decidingClient) Decided() bool {
	_, nobody := f.Client.(silent)
	return nobody || call.Decided(f.Client) || f.onAsk == "allow" || f.onAsk == "deny"
}

// The type "silent" is the client of a request whose caller has no client. It ignores all events.
type silent struct{}

func (silent) Progress(string, map[string]any) {}

func (silent) Output(tool.Stream, []byte) {}

func (silent) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "there is nobody to ask"}, nil
}
