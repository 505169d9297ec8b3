package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/sdk/tool"
)

// hookFunc is a function as a hook.
type hookFunc func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)

func (f hookFunc) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	return f(ctx, in)
}

func hookOn(event tool.HookEvent, f hookFunc) *hook.Set {
	return hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{event}, Handler: f}})
}

// Hooks see what became of every call that ran, also if its time is over or its caller has gone, and of no
// other call.
func TestAfterHooksOutliveTheDeadline(t *testing.T) {
	var seen []string
	d := dispatcher(t, untilDone)
	d.Hooks = hookOn(tool.HookAfter, func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		seen = append(seen, fmt.Sprint(in.Tool, " ", in.Result.Error.Kind, " ", ctx.Err()))
		if in.Tool == "brief" && !strings.Contains(in.Result.Error.Message, "brief took longer than 50ms") {
			t.Errorf("the hook sees %q", in.Result.Error.Message)
		}
		return &tool.HookAnswer{Result: &tool.Result{Output: "replaced"}}, nil
	})
	if res := run(t, d, "brief"); res.Output != "replaced" || res.Run.Attempts != 1 {
		t.Errorf("%+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Plugins = plugins(func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		cancel()
		return untilDone(ctx, call, peer)
	})
	if res := begin(d, "2", "s", "look").Run(ctx, front{}); res.Output != "replaced" {
		t.Errorf("%+v", res)
	}
	if res := run(t, d, "danger"); res.Output != "" || res.Error == nil {
		t.Errorf("%+v", res)
	}
	if !slices.Equal(seen, []string{"brief timeout <nil>", "look canceled <nil>"}) {
		t.Errorf("%q", seen)
	}
}
