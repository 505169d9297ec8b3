package toolrpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// hooked is a test plugin that serves hooks.
type hooked struct {
	fake
	hook func(in *tool.HookInput) (*tool.HookAnswer, error)
}

func (h *hooked) Hook(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	return h.hook(in)
}

func TestHooksOverTheWire(t *testing.T) {
	in := &tool.HookInput{
		Event: tool.HookAfter, Hook: "h", Tool: "a:b", CallID: "c", MessageID: "m", SessionID: "s", Cwd: "/d", Workspace: "/w", Arguments: []byte(`{"a":1}`),
		Result: &tool.Result{Output: "o", Title: "t", Data: []byte(`[1]`), SessionState: []byte("secret"), Cwd: "/elsewhere", Effects: []tool.Effect{{}}},
	}
	var got *tool.HookInput
	want := &tool.HookAnswer{Decision: tool.HookAsk, Reason: "r", Arguments: []byte(`{}`), Result: &tool.Result{Output: "n", Error: tool.Errorf(tool.Conflict, "e")}}
	h := &hooked{hook: func(in *tool.HookInput) (*tool.HookAnswer, error) {
		got = in
		return want, nil
	}}
	c := connect(t, &server{impl: h})
	a, err := c.Hook(t.Context(), in)
	if err != nil || a.Decision != want.Decision || a.Reason != "r" || string(a.Arguments) != "{}" || a.Result.Output != "n" || a.Result.Error.Kind != tool.Conflict {
		t.Errorf("%+v %v", a, err)
	}
	if got.Result.SessionState != nil || got.Result.Cwd != "" || got.Result.Effects != nil {
		t.Errorf("the plugin is told what only the host is: %+v", got.Result)
	}
	expect := *in
	expect.Result = shown(in.Result)
	a1, err1 := json.Marshal(got)
	a2, err2 := json.Marshal(&expect)
	if err1 != nil || err2 != nil || string(a1) != string(a2) {
		t.Errorf("\n%s\n%s", a1, a2)
	}

	h.hook = func(*tool.HookInput) (*tool.HookAnswer, error) { return &tool.HookAnswer{Decision: "perhaps"}, nil }
	if a, err := c.Hook(t.Context(), &tool.HookInput{Event: tool.HookRegister, Definition: &tool.Definition{Name: "x"}}); err != nil || a.Decision != tool.HookDeny {
		t.Errorf("a decision that is none must deny: %+v %v", a, err)
	}
	h.hook = func(*tool.HookInput) (*tool.HookAnswer, error) { return nil, errors.New("broken") }
	if _, err := c.Hook(t.Context(), in); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
	if _, err := connect(t, &server{impl: &fake{}}).Hook(t.Context(), in); err == nil {
		t.Error("a plugin without hooks answers")
	}
	if _, err := hookAnswerFromPB(&toolpb.HookResponse{Decision: 77}); err == nil {
		t.Error("a decision that is not known is taken")
	}
}
