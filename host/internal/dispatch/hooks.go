package dispatch

import (
	"context"
	"errors"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
)

// hooks calls the hooks before a call, which may veto or change it, and after it, which may replace or
// withhold its result.
func (d *Dispatcher) hooks() Stage {
	if d.Hooks == nil {
		return Stage{}
	}
	return Stage{Name: "hooks", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			name := c.Identity.Tool.FullName()
			if before := d.Hooks.For(tool.HookBefore, name); len(before) > 0 {
				if err := c.before(ctx, before); err != nil {
					return c.notPermitted(ctx, err)
				}
			}
			after := d.Hooks.For(tool.HookAfter, name)
			if len(after) == 0 {
				return next(ctx, c)
			}
			c.shown = silent{c.front}
			res := next(ctx, c)
			if !c.Outcome.Ran {
				return res
			}
			return c.after(ctx, after, res)
		}
	}}
}

// after passes the result to the hooks and returns the one that they let through. They run even if ctx has
// ended: a caller that canceled the call must not see more than another one.
func (c *Call) after(ctx context.Context, hooks []*hook.Hook, res *tool.Result) *tool.Result {
	in := c.hookInput(tool.HookAfter)
	in.Result = res
	changed, log, err := hook.After(context.WithoutCancel(ctx), hooks, in)
	c.Decision.Hooks = append(c.Decision.Hooks, log...)
	switch {
	case err != nil:
		changed = refused(tool.Errorf(tool.PermissionDenied, "%s ran, but a hook withheld its result: %w.", c.Identity.Tool.FullName(), trimmed(err)))
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

// silent is a front that sees nothing of what the tool reports while it runs, because a hook may change the result.
type silent struct{ Front }

func (silent) Output(tool.Stream, []byte) {}

func (silent) Progress(string, map[string]any) {}
