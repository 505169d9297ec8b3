package engine

import (
	"cmp"
	"context"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

// Client receives the events of a call while it runs, and answers its questions.
type Client = call.Client

// client returns the client of a request with the operator's decisions about asks. c may be nil.
func (e *Engine) client(c Client) Client {
	onAsk := cmp.Or(e.opts.OnAsk, e.Current().Config.Host.OnAsk)
	if onAsk == "" && !e.opts.Prompt {
		onAsk = "deny"
	}
	if c == nil {
		c = silent{}
	}
	return &decidingClient{Client: c, onAsk: onAsk}
}

// decidingClient answers the permission asks that the operator decided beforehand. It never answers questions for the user.
type decidingClient struct {
	Client
	onAsk string
}

func (f *decidingClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
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

// silent is the client of a request that has none.
type silent struct{}

func (silent) Progress(string, map[string]any) {}

func (silent) Output(tool.Stream, []byte) {}

func (silent) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "there is nobody to ask"}, nil
}
