package engine

import (
	"cmp"
	"context"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

// Front is told what a call does while it runs, and answers its asks.
type Front = call.Front

// front returns the front of a request with the operator's decisions about asks. f may be nil.
func (e *Engine) front(f Front) Front {
	onAsk := cmp.Or(e.opts.OnAsk, e.Current().Config.Host.OnAsk)
	if onAsk == "" && !e.opts.Prompt {
		onAsk = "deny"
	}
	if f == nil {
		f = silent{}
	}
	return &decidingFront{Front: f, onAsk: onAsk}
}

// decidingFront answers the permission asks that the operator decided beforehand. It never answers questions for the user.
type decidingFront struct {
	Front
	onAsk string
}

func (f *decidingFront) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission != nil {
		switch f.onAsk {
		case "allow":
			return tool.Answer{Outcome: tool.Accepted}, nil
		case "deny":
			return tool.Answer{Outcome: tool.Declined, Message: "asks are denied here; run with --on-ask prompt or allow, or set on_ask in the configuration"}, nil
		}
	}
	return f.Front.Ask(ctx, ask)
}

// silent is the front of a request that has none.
type silent struct{}

func (silent) Progress(string, map[string]any) {}

func (silent) Output(tool.Stream, []byte) {}

func (silent) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "there is nobody to ask"}, nil
}
