package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/stage"
)

// Hooks runs the hooks of the configuration. A hook before the call can veto or change the call. A hook after the call
// can replace or withhold the result.
func Hooks(set *hook.Set) stage.Stage {
	if set == nil {
		return stage.Stage{}
	}
	return stage.Stage{Name: "hooks", Wrap: func(next stage.Handler) stage.Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			name := c.Identity.Tool.FullName()
			if before := set.For(tool.HookBefore, name); len(before) > 0 {
				if err := c.BeforeHooks(ctx, before); err != nil {
					return stage.NotPermitted(ctx, c, err)
				}
			}
			after := set.For(tool.HookAfter, name)
			if len(after) == 0 {
				return next(ctx, c)
			}
			c.Shown = silent{c.Client}
			res := next(ctx, c)
			if !c.Outcome.Ran {
				return res
			}
			return c.AfterHooks(ctx, after, res)
		}
	}}
}

// silent is a client that receives no events of a running tool, because a hook after the call can still withhold the
// result.
type silent struct{ call.Client }

func (silent) Output(tool.Stream, []byte) {}

func (silent) Progress(string, map[string]any) {}

func (silent) Log(tool.LogMessage) {}
