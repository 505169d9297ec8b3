package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestACallHoldsItsTurnUntilItIsReleased(t *testing.T) {
	d := dispatcher(t, ok)
	first, second := prepared(t, d, "change"), prepared(t, d, "change")
	queue := d.queue().Wrap(func(context.Context, *Call) *tool.Result { return &tool.Result{Output: "ran"} })
	if res := queue(t.Context(), first); res.Output != "ran" || first.Outcome.Waited {
		t.Errorf("%+v, %+v", res, first.Outcome)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, queue(ctx, second), tool.Canceled, "")
	first.Release()
	third := prepared(t, d, "change")
	if res := queue(t.Context(), third); res.Output != "ran" || !second.Outcome.Waited || third.Outcome.Waited {
		t.Errorf("%+v, second %+v, third %+v", res, second.Outcome, third.Outcome)
	}
}

// TestARefusedCallLeavesTheLine checks that a call which is released without being run leaves the queue.
func TestARefusedCallLeavesTheLine(t *testing.T) {
	d := dispatcher(t, ok)
	prepared(t, d, "change").Release()
	if c := prepared(t, d, "change"); c.Ticket.Waits() {
		t.Error("the next call waits")
	}
}

func TestACallInsideAnotherDoesNotQueue(t *testing.T) {
	d := dispatcher(t, ok)
	c := prepared(t, d, "change")
	inner := &Call{Request: c.Request, Identity: c.Identity}
	if res := d.queue().Wrap(func(context.Context, *Call) *tool.Result { return &tool.Result{Output: "ran"} })(t.Context(), inner); res.Output != "ran" {
		t.Errorf("%+v", res)
	}
}
