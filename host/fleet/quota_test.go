package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestQuotaWaits checks calls that wait while another call of their principal asks the coordinators for a part of the
// quota: a call whose caller goes away ends at once, and if the coordinators do not answer, the calls do not ask one
// after another.
func TestQuotaWaits(t *testing.T) {
	records := newTestRecords(t)
	f, _ := records.node(t, "one", "east")
	if err := f.admitWithin(t.Context(), "alice", 16); err != nil {
		t.Fatal(err)
	}
	s := f.quotas.sliceOf("alice")
	s.turn <- struct{}{} // another call asks the coordinators
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *tool.Error
	if err := f.admitWithin(ctx, "alice", 16); !errors.As(err, &e) || e.Kind != tool.Canceled {
		t.Errorf("a call whose caller went away: %v", err)
	}
	records.server.Shutdown()
	s.left = 0
	const calls = 50 // one after another, they would exceed the time of the test
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if err := f.admitWithin(t.Context(), "alice", 16); err == nil || !strings.Contains(err.Error(), "do not answer") {
				t.Errorf("a call without coordinators: %v", err)
			}
		})
	}
	<-s.turn
	all.Wait()
	if s.failed == nil {
		t.Error("the failure is not remembered")
	}
}
