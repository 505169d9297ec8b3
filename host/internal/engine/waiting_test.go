package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
)

// TestWaitingCalls checks that a call waits for an earlier one of its session, at most for max_wait, and that the
// status names the reason.
func TestWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "host {\n max_wait = \"30s\"\n max_parallel = 1\n}\n")
		held := f.hold(t.Context(), "a", "g")
		began, late := time.Now(), make(chan *tool.Result)
		pending := f.Begin(Request{ID: "late", Session: "a", Name: "count", Arguments: []byte("{}")}, answer.Nobody{})
		go func() { late <- pending.Run(t.Context()) }()
		time.Sleep(time.Second)
		calls, _ := f.ActiveCalls(f.local, 10)
		if len(calls) != 2 || calls[1].Call != "late" || calls[1].Waits == "" {
			t.Errorf("%+v", calls)
		}
		if s := f.Signals(); s.Busy != 1 || len(s.Waiting) != 1 {
			t.Errorf("%+v", s)
		}
		if res := <-late; res.Error == nil || time.Since(began) != 30*time.Second {
			t.Errorf("after %s: %v", time.Since(began), res.Error)
		}
		f.Programs.Gate("g").Open()
		succeeds(t, <-held, "passed")
		succeeds(t, f.call("a", "count", "{}"), "1") // the call that waited in vain did not run
	})
}
