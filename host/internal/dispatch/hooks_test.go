package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

// hookFunc is a function that implements a hook.
type hookFunc func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)

func (f hookFunc) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	return f(ctx, in)
}

// hookOn returns the stage of one hook. Without tools, it runs for all tools.
func hookOn(event tool.HookEvent, f hookFunc, tools ...string) Stage {
	return Hooks(hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{event}, Tools: tools, Handler: f}}))
}

// TestAfterHooksOutliveTheDeadline checks that hooks receive the result of every call that ran, even after a timeout or
// a cancellation. If a call did not run, hooks must not receive its result.
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
	if res := begin(d, "2", "s", "look").Run(ctx, client{}); res.Output != "replaced" {
		t.Errorf("%+v", res)
	}
	if res := run(t, d, "danger"); res.Output != "" || res.Error == nil {
		t.Errorf("%+v", res)
	}
	if !slices.Equal(seen, []string{"brief timeout <nil>", "look canceled <nil>"}) {
		t.Errorf("%q", seen)
	}
}

// TestResultsOfHooksAreLimited checks that what a hook returns is shortened, that a hook receives the whole result, and
// that only what passed the hooks is in a file. Otherwise the file would have what a hook removes or withholds.
func TestResultsOfHooksAreLimited(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		event  tool.HookEvent
		answer *tool.HookAnswer
		file   bool
	}{
		"refusal": {tool.HookBefore, &tool.HookAnswer{Decision: tool.HookDeny, Reason: long}, true},
		"result":  {tool.HookAfter, &tool.HookAnswer{Result: &tool.Result{Output: long}}, true},
		"same":    {tool.HookAfter, new(tool.HookAnswer), true},
		"short":   {tool.HookAfter, &tool.HookAnswer{Result: &tool.Result{Output: "***"}}, false},
		"none":    {tool.HookAfter, &tool.HookAnswer{Decision: tool.HookDeny, Reason: "secret"}, false},
	} {
		d, dir := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{Output: long} }), t.TempDir()
		d.Results = stored{spill.NewStore(dir)}
		d.Hooks = hookOn(c.event, func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
			if in.Result != nil && in.Result.Output != long {
				t.Errorf("%s: the hook gets %d bytes", name, len(in.Result.Output))
			}
			return c.answer, nil
		})
		res := run(t, d, "look")
		text := res.Output
		if res.Error != nil {
			text = res.Error.Message
		}
		files, err := os.ReadDir(dir)
		if len(text) > 60_000 || strings.Contains(text, "the whole output is in "+dir) != c.file || len(files) > 0 != c.file || err != nil {
			t.Errorf("%s: %d bytes, files %v: %.100q", name, len(text), files, text)
		}
	}
}

func TestHooksChangeArguments(t *testing.T) {
	d := dispatcher(t, ok)
	answer := new(tool.HookAnswer)
	d.Hooks = hookOn(tool.HookBefore, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return answer, nil })
	answer.Arguments = json.RawMessage(`{"text":"x"}`)
	c := prepared(t, d, "look --path a")
	d.Hooks.Wrap(func(_ context.Context, c *Call) *tool.Result {
		if _, kept := c.Decision.Arguments["path"]; kept || string(c.Decision.Sent.Arguments) != `{"text":"x"}` || len(c.Decision.Hooks) != 1 {
			t.Errorf("%s, %+v", c.Decision.Sent.Arguments, c.Decision)
		}
		return new(tool.Result)
	})(t.Context(), c)
	answer.Arguments = json.RawMessage(`{"txt":"x"}`)
	c = prepared(t, d, "look")
	must(t, d.Hooks.Wrap(noNext(t))(t.Context(), c), tool.PermissionDenied, "txt")
	if c.Decision.Policy.Rule != `hook "h"` {
		t.Errorf("%+v", c.Decision.Policy)
	}
}

func TestHooksThatAsk(t *testing.T) {
	d := dispatcher(t, ok)
	d.Hooks = hookOn(tool.HookBefore, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
		return &tool.HookAnswer{Decision: tool.HookAsk, Reason: "sure?"}, nil
	})
	for outcome, want := range map[tool.Outcome]bool{tool.Accepted: true, tool.Declined: false} {
		f := &asked{answer: tool.Answer{Outcome: outcome}}
		if res := begin(d, "1", "s", "look").Run(t.Context(), f); res.Success() != want || f.n != 1 {
			t.Errorf("%s: %+v, asked %d times", outcome, res, f.n)
		}
	}
}

// TestAfterHooksKeepOutputBack checks that the client receives no output before the hooks after the call run, because
// these hooks can change the result.
func TestAfterHooksKeepOutputBack(t *testing.T) {
	d := dispatcher(t, ok)
	f := new(heard)
	show := func(_ context.Context, c *Call) *tool.Result {
		c.Shown.Output(tool.Stdout, []byte("x"))
		c.Shown.Progress("x", nil)
		return new(tool.Result)
	}
	for event, times := range map[tool.HookEvent]int{tool.HookBefore: 2, tool.HookAfter: 0} {
		f.n = 0
		d.Hooks = hookOn(event, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return nil, nil })
		c := prepared(t, d, "look")
		c.Client, c.Shown = f, f
		d.Hooks.Wrap(show)(t.Context(), c)
		if f.n != times {
			t.Errorf("%s: shown %d times, want %d", event, f.n, times)
		}
	}
}

type heard struct {
	client
	n int
}

func (h *heard) Output(tool.Stream, []byte)      { h.n++ }
func (h *heard) Progress(string, map[string]any) { h.n++ }
