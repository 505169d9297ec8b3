package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// hookFunc adapts a function to a hook.
type hookFunc func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)

func (f hookFunc) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	return f(ctx, in)
}

func TestHooksOfAnEmbedder(t *testing.T) {
	var mu sync.Mutex
	heard := make(map[string]int)
	appends := func(s string) hookFunc {
		return func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
			var args struct{ Text string }
			if err := json.Unmarshal(in.Arguments, &args); err != nil {
				return nil, err
			}
			b, err := json.Marshal(map[string]string{"text": args.Text + s})
			return &tool.HookAnswer{Arguments: b}, err
		}
	}
	never := make(chan struct{})
	defer close(never)
	before := []tool.HookEvent{tool.HookBefore}
	opts := testplugin(t)
	opts.Hooks = []host.Hook{
		{Name: "low", On: before, Tools: []string{"echo"}, Priority: -1, Handler: appends(" low")},
		{Name: "first", On: before, Tools: []string{"ec*"}, Handler: appends(" first")},
		{Name: "second", On: before, Tools: []string{"echo"}, Handler: appends(" second")},
		{Name: "panics", On: before, Tools: []string{"nap"}, Handler: hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { panic("oh") })},
		{Name: "hangs", On: before, Tools: []string{"big"}, Timeout: 50 * time.Millisecond, Handler: hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
			<-never // blocks forever and ignores the context
			return nil, nil
		})},
		{Name: "lax", On: before, Tools: []string{"print"}, AllowOnFailure: true, Handler: hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { panic("oh") })},
		{Name: "strange", On: before, Tools: []string{"fail"}, Handler: hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
			return &tool.HookAnswer{Decision: "perhaps"}, nil
		})},
		{Name: "notes", On: []tool.HookEvent{tool.HookRegister, tool.HookUnregister}, Handler: hookFunc(func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
			mu.Lock()
			defer mu.Unlock()
			heard[string(in.Event)+" "+in.Tool]++
			return nil, nil
		})},
	}
	h := open(t, opts)
	run := func(command string) *host.Result { return h.Run(t.Context(), host.Request{Command: command}, nil) }

	if res := run("echo a"); res.Output != "a first second low" {
		t.Errorf("%q %v", res.Output, res.Error)
	}
	for command, why := range map[string]string{"nap 1": "panicked: oh", "big 1": "longer than 50ms", "fail not_found": "no reason given"} {
		if res := run(command); res.Error == nil || res.Error.Kind != tool.PermissionDenied || !strings.Contains(res.Error.Message, why) {
			t.Errorf("%s: %+v", command, res.Error)
		}
	}
	if res := run("print"); res.Error != nil {
		t.Errorf("a hook that may fail refused: %v", res.Error)
	}

	if err := h.Disable("echo"); err != nil {
		t.Fatal(err)
	}
	if err := h.Enable("echo"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil { // Close waits for pending notifications
		t.Fatal(err)
	}
	if heard["register echo"] != 2 || heard["unregister echo"] != 1 || heard["register nap"] != 1 || heard["unregister nap"] != 0 {
		t.Errorf("%v", heard)
	}
}

// TestAHookThatChangesResultsSeesThemFirst checks that the client receives no output of a tool before the hook has
// processed the result.
func TestAHookThatChangesResultsSeesThemFirst(t *testing.T) {
	opts := testplugin(t)
	opts.Hooks = []host.Hook{{Name: "hide", On: []tool.HookEvent{tool.HookAfter}, Tools: []string{"print"}, Handler: hookFunc(func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		return &tool.HookAnswer{Result: &tool.Result{Output: "hidden"}}, nil
	})}}
	h := open(t, opts)
	client := new(listener)
	res := h.Run(t.Context(), host.Request{Command: "print"}, client)
	if res.Output != "hidden" || res.Data != nil || res.Run.Plugin == "" || client.heard.Len() > 0 {
		t.Errorf("%+v, and it was heard: %q", res, client.heard.String())
	}
}

type listener struct{ heard strings.Builder }

func (l *listener) Progress(title string, _ map[string]any) { l.heard.WriteString(title) }
func (l *listener) Output(_ tool.Stream, chunk []byte)      { l.heard.Write(chunk) }
func (*listener) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk}, nil
}

func TestHooksThatCannotWorkAreRefused(t *testing.T) {
	nothing := hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return nil, nil })
	for why, hooks := range map[string][]host.Hook{
		"no name":       {{On: []tool.HookEvent{tool.HookAfter}, Handler: nothing}},
		"no handler":    {{Name: "a", On: []tool.HookEvent{tool.HookAfter}}},
		"no event":      {{Name: "a", Handler: nothing}},
		"unknown event": {{Name: "a", On: []tool.HookEvent{"later"}, Handler: nothing}},
		"invalid glob":  {{Name: "a", On: []tool.HookEvent{tool.HookAfter}, Tools: []string{"["}, Handler: nothing}},
		"two hooks":     {{Name: "a", On: []tool.HookEvent{tool.HookAfter}, Handler: nothing}, {Name: "a", On: []tool.HookEvent{tool.HookAfter}, Handler: nothing}},
	} {
		opts := testplugin(t)
		opts.StateDir, opts.Hooks = t.TempDir(), hooks
		h, err := host.New(t.Context(), opts)
		if err == nil {
			_ = h.Close()
			t.Errorf("%s: it was taken", why)
		} else if !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
