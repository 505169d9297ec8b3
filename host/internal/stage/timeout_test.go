package stage

import (
	"context"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
)

func must(t *testing.T, res *tool.Result, kind tool.Kind, text string) {
	t.Helper()
	if res.Error == nil || res.Error.Kind != kind || !strings.Contains(res.Error.Message, text) {
		t.Errorf("%+v, want an error of kind %s with %q", res, kind, text)
	}
}

// looks returns a call of the tool "look".
func looks() *call.Call {
	return &call.Call{Identity: call.Identity{Tool: &registry.Entry{Definition: tool.Definition{Name: "look"}}}}
}

// TestNamedLimit checks that the error contains the limit that ended the call.
func TestNamedLimit(t *testing.T) {
	l := &Limits{Timeout: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for limit, text := range map[time.Duration]string{time.Minute: `look took longer than 1m0s and was stopped. Ask for less, or raise`, 5 * time.Second: `set adaptive = false`} {
		c := looks()
		c.Outcome.Limit = limit
		res := &tool.Result{Error: tool.Errorf(tool.Timeout, "x").From(tool.SourcePlugin)}
		l.describeEnd(t.Context(), ctx, c, res)
		must(t, res, tool.Timeout, text)
	}
	// A tool can also report its own timeout, for example of a slow server.
	c := looks()
	own := &tool.Result{Error: tool.Errorf(tool.Timeout, "the server is slow")}
	l.describeEnd(t.Context(), t.Context(), c, own)
	must(t, own, tool.Timeout, "the server is slow")
}

// lateTimer is a context with an expired deadline whose timer has not yet fired.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestEachEndHasOneError checks that the error of an ended call depends only on the cause of the end.
func TestEachEndHasOneError(t *testing.T) {
	l := &Limits{Timeout: time.Minute}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	ended, end := context.WithCancelCause(t.Context())
	end(ErrStopped)
	ended, stopEnded := context.WithTimeout(ended, time.Hour)
	defer stopEnded()
	for _, raw := range []*tool.Error{
		tool.Errorf(tool.Timeout, "stream terminated by RST_STREAM with error code: CANCEL"), tool.Errorf(tool.ExecutionFailed, "context deadline exceeded"),
		tool.Errorf(tool.Unavailable, "error reading from server: EOF"), tool.Errorf(tool.Canceled, "context canceled"),
	} {
		for _, end := range []struct {
			caller, limited context.Context
			kind            tool.Kind
			text            string
		}{
			{t.Context(), lateTimer{t.Context()}, tool.Timeout, "look took longer than 1m0s and was stopped"},
			{t.Context(), late, tool.Timeout, "look took longer than 1m0s and was stopped"},
			{gone, gone, tool.Canceled, "look was canceled by its caller"},
			{ended, ended, tool.Canceled, "look was stopped, because the host was stopped"},
			{late, late, tool.Timeout, "the caller's own deadline passed"},
		} {
			c := looks()
			c.Outcome.Limit = time.Minute
			res := &tool.Result{Error: raw.From(tool.SourcePlugin)}
			l.describeEnd(end.caller, end.limited, c, res)
			must(t, res, end.kind, end.text)
			if res.Error.Source != tool.SourceHost {
				t.Error(res.Error.Source)
			}
			whole := &tool.Result{Output: "done"}
			if l.describeEnd(end.caller, end.limited, c, whole); !whole.Success() {
				t.Errorf("a call that succeeded ended with %v", whole.Error)
			}
		}
	}
}
