package dispatch

import (
	"context"
	"strings"
	"testing"

	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

func TestBusyTools(t *testing.T) {
	inside, let := make(chan struct{}, 10), make(chan struct{})
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		inside <- struct{}{}
		<-let
		return &tool.Result{Output: "ok"}
	})
	d.Gates = new(scheduler.Gates)
	limits := &d.Registry.Lookup("", "look").Limits
	limits.MaxConcurrent, limits.Queue = 1, -1
	done := make(chan *tool.Result)
	go func() { done <- run(t, d, "look") }()
	<-inside
	res := d.Begin(Request{ID: "2", Command: "look", Session: session("other")}).Run(t.Context(), front{})
	if res.Error == nil || res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "The tool look is busy: 1 calls run and 0 wait") {
		t.Errorf("%+v", res.Error)
	}
	close(let)
	if res := <-done; !res.Success() {
		t.Error(res.Error)
	}
	if res := run(t, d, "look"); !res.Success() {
		t.Error(res.Error)
	}
}
