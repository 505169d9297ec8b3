package host

import (
	"cmp"
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// What an answer to a permission ask may say in its Values of how long it holds; one that
// says nothing holds once. Metadata of the ask has them under "scopes", and under "rule"
// and "reason" why it is asked.
const (
	ScopeOnce    = policy.Once
	ScopeSession = policy.Session // in this session, accepted or declined
	ScopeAlways  = policy.Always  // accepted, in this workspace
	ScopeNever   = policy.Never   // declined, in this workspace
)

// front gives the front of a request what the configuration decides: asks that
// nobody can answer, and silence when there is no front.
func (h *Host) front(f Front) Front {
	onAsk := cmp.Or(h.opts.OnAsk, h.current.Load().cfg.Host.OnAsk)
	if onAsk == "" && !h.opts.Prompt {
		onAsk = "deny"
	}
	if f == nil {
		f = silent{}
	}
	return &decidingFront{Front: f, onAsk: onAsk}
}

// decidingFront answers permission asks itself where the operator decided them
// beforehand. Questions are never answered on the user's behalf.
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
