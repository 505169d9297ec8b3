package dispatch

import (
	"context"
	"errors"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

func TestJudgeRunsNothing(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	for command, want := range map[string]policy.Effect{"look": policy.Allow, "danger": policy.Ask, "off": policy.Deny, "look -h": policy.Allow} {
		if got := d.Judge(Request{Command: command, Session: session("s")}); got.Effect != want {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if err := d.State.Flush(); err != nil {
		t.Fatal(err)
	}
	if h, err := d.State.History("s", 1); err != nil || len(h) > 0 || l.taken.Load() > 0 {
		t.Errorf("%v %v, %d leases", h, err, l.taken.Load())
	}
}

func TestExplainRunsNothing(t *testing.T) {
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		t.Error("it ran")
		return &tool.Result{}
	})
	if c := d.Explain("look --text x", "/"); c.Error != nil || string(c.Kwargs["text"]) != `"x"` {
		t.Errorf("%+v", c)
	}
	if c := d.Explain("off", "/"); !errors.Is(c.Error, &tool.Error{Kind: tool.PermissionDenied}) {
		t.Errorf("%v", c.Error)
	}
	if c := d.Explain("git status", "/"); c.Error != nil {
		t.Errorf("%v", c.Error)
	}
}
