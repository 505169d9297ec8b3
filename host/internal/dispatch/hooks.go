package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/policy"
)

// before has the hooks judge the call. What they change is checked as the call's own
// arguments were; the rules see it only then.
func (p *Pending) before(ctx context.Context, call *tool.Call, front Front) error {
	hooks := p.d.Hooks.For(tool.HookBefore, p.entry.FullName())
	if len(hooks) == 0 {
		return nil
	}
	args, log, err := hook.Before(ctx, hooks, p.hookInput(tool.HookBefore, call), hook.Caller{
		Check: p.checkChanged,
		Ask: func(ctx context.Context, by *hook.Hook, args json.RawMessage, reason string) error {
			return p.askFor(ctx, by, args, reason, front)
		},
	})
	p.hooked = log
	refusal := (*hook.RefusalError)(nil)
	switch {
	case errors.As(err, &refusal):
		p.decided = &policy.Decision{Effect: policy.Deny, Rule: refusal.By.String(), Reason: refusal.Reason}
		return tool.Errorf(tool.PermissionDenied, "%s is not run: %w.", p.entry.FullName(), trimmed(err))
	case err != nil:
		return err
	}
	if args != nil {
		p.args = nil                                          // or it would keep what is gone
		if err := json.Unmarshal(args, &p.args); err != nil { // it was checked
			return err
		}
		call.Arguments, p.given = args, args
	}
	return nil
}

// trimmed leaves out the end of a sentence, which the message has.
func trimmed(err error) error {
	if s := err.Error(); strings.HasSuffix(s, ".") {
		return fmt.Errorf("%s", strings.TrimRight(s, "."))
	}
	return err
}

// checkChanged completes arguments as a hook gave them.
func (p *Pending) checkChanged(raw json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	args, bad := p.entry.Schema().Check(given)
	if len(bad) > 0 {
		var all []string
		for _, v := range bad {
			all = append(all, v.Message)
		}
		return nil, errors.New(strings.Join(all, "; "))
	}
	return object(args), nil
}

// askFor asks a person because a hook wants that. The answer is to this call alone.
func (p *Pending) askFor(ctx context.Context, by *hook.Hook, args json.RawMessage, reason string, front Front) error {
	name := p.entry.FullName()
	if reason == "" {
		reason = fmt.Sprintf("%s asks about a call of %s", by, name)
	}
	a, err := front.Ask(ctx, tool.Ask{Permission: &tool.Permission{
		Kind: name, Title: reason, Patterns: []string{name + " " + string(args)}, Metadata: map[string]any{"rule": by.String(), "reason": reason},
	}})
	switch {
	case err != nil:
		return err
	case a.Outcome == tool.Accepted:
		return nil
	case a.Message != "":
		return fmt.Errorf("it asks (%s), and the answer is no: %s", reason, a.Message)
	}
	return fmt.Errorf("it asks (%s), and the answer is no (%s)", reason, a.Outcome)
}

// after has the hooks see what came of the call. Who canceled it still gets no more than they
// let pass.
func (p *Pending) after(ctx context.Context, call *tool.Call, res *tool.Result) *tool.Result {
	hooks := p.d.Hooks.For(tool.HookAfter, p.entry.FullName())
	if len(hooks) == 0 {
		return res
	}
	in := p.hookInput(tool.HookAfter, call)
	in.Result = res
	changed, log, err := hook.After(context.WithoutCancel(ctx), hooks, in)
	p.hooked = append(p.hooked, log...)
	switch {
	case err != nil:
		changed = refused(tool.Errorf(tool.PermissionDenied, "%s has run, but what came of it is withheld: %w.", p.entry.FullName(), trimmed(err)))
	case changed == nil:
		return res
	case changed.Error != nil && changed.Error.Source == "":
		changed.Error = changed.Error.From(tool.SourceHost)
	}
	out := *changed
	out.Effects, out.Run = res.Effects, res.Run
	return &out
}

func (p *Pending) hookInput(event tool.HookEvent, call *tool.Call) tool.HookInput {
	return tool.HookInput{
		Event: event, Tool: p.entry.FullName(), CallID: call.ID, MessageID: call.MessageID, SessionID: call.SessionID,
		Cwd: call.Cwd, Workspace: p.req.Session.Workspace, Arguments: call.Arguments,
	}
}

// withheld is a front that is told nothing of what the tool says while it runs: a hook may
// change what of it is seen.
type withheld struct{ Front }

func (withheld) Output(tool.Stream, []byte) {}

func (withheld) Progress(string, map[string]any) {}

// hooksText is what hooks did, for the audit log.
func (p *Pending) hooksText() []string {
	var out []string
	for _, o := range p.hooked {
		out = append(out, o.String())
	}
	return out
}
