package call

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

// BeforeHooks runs the hooks before the call. It validates changed arguments again. The rules of the policy apply to
// the changed arguments.
func (c *Call) BeforeHooks(ctx context.Context, hooks []*hook.Hook) error {
	name := c.Identity.Tool.FullName()
	args, log, err := hook.Before(ctx, hooks, c.hookInput(tool.HookBefore), hook.Caller{
		Check: c.checkChanged, Ask: c.askForHook,
	})
	c.Decision.Hooks = log
	refusal := (*hook.RefusalError)(nil)
	switch {
	case errors.As(err, &refusal):
		c.Decision.Policy = &policy.Decision{Effect: policy.Deny, Rule: refusal.By.String(), Reason: refusal.Reason}
		return tool.Errorf(tool.PermissionDenied, "%s is not run: %w.", name, trimmed(err))
	case err != nil:
		return err
	}
	if args != nil {
		c.Decision.Arguments = nil                                          // because Unmarshal keeps map entries that the hooks removed
		if err := json.Unmarshal(args, &c.Decision.Arguments); err != nil { // no error is possible, because checkChanged created valid JSON
			return err
		}
		c.Decision.Sent.Arguments = args
	}
	return nil
}

// AfterHooks runs the hooks after the call and returns the final result. The hooks run even if ctx has ended, because
// the result of a canceled call can also contain data that a hook must remove.
func (c *Call) AfterHooks(ctx context.Context, hooks []*hook.Hook, res *tool.Result) *tool.Result {
	in := c.hookInput(tool.HookAfter)
	in.Result = res
	changed, log, err := hook.After(context.WithoutCancel(ctx), hooks, in)
	c.Decision.Hooks = append(c.Decision.Hooks, log...)
	switch {
	case err != nil:
		changed = Refused(tool.Errorf(tool.PermissionDenied, "%s ran, but a hook withheld the result: %w.", c.Identity.Tool.FullName(), trimmed(err)))
	case changed == nil:
		return res
	case changed.Error != nil && changed.Error.Source == "":
		changed.Error = changed.Error.From(tool.SourceHost)
	}
	out := *changed
	out.Effects, out.Run = res.Effects, res.Run
	return &out
}

// trimmed removes the trailing full stop, because the message adds one.
func trimmed(err error) error {
	if s := err.Error(); strings.HasSuffix(s, ".") {
		return errors.New(strings.TrimRight(s, "."))
	}
	return err
}

// checkChanged validates arguments that a hook changed and adds default values.
func (c *Call) checkChanged(raw json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	args, bad := c.Identity.Tool.Schema().Check(given)
	if len(bad) > 0 {
		var all []string
		for _, v := range bad {
			all = append(all, v.Message)
		}
		return nil, errors.New(strings.Join(all, "; "))
	}
	return Object(args), nil
}

// askForHook asks a person for the confirmation that a hook requires. The answer is valid for this call only.
func (c *Call) askForHook(ctx context.Context, by *hook.Hook, args json.RawMessage, reason string) error {
	name := c.Identity.Tool.FullName()
	if reason == "" {
		reason = fmt.Sprintf("%s asks about a call of %s", by, name)
	}
	a, err := c.Client.Ask(ctx, tool.Ask{Permission: &tool.Permission{
		Kind: name, Title: reason, Patterns: []string{name + " " + string(args)},
		Metadata: map[string]any{"rule": by.String(), "reason": reason},
	}})
	switch {
	case err != nil:
		return err
	case a.Outcome == tool.Accepted:
		return nil
	case a.Message != "":
		return fmt.Errorf("the hook asked for permission (%s), which was denied: %s", reason, a.Message)
	}
	return fmt.Errorf("the hook asked for permission (%s), which was denied (%s)", reason, a.Outcome)
}

func (c *Call) hookInput(event tool.HookEvent) tool.HookInput {
	sent := c.Decision.Sent
	return tool.HookInput{
		Event: event, Tool: c.Identity.Tool.FullName(), CallID: sent.ID, MessageID: sent.MessageID,
		SessionID: sent.SessionID,
		Cwd:       sent.Cwd, Workspace: c.Request.Session.Top(), Arguments: sent.Arguments,
	}
}
