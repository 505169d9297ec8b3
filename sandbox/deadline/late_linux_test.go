package deadline_test

import (
	"testing"
	"time"

	"toolhost.dev/sandbox/deadline"
)

// TestLateRenewal checks that a renewal after the end of the guard has no effect. Another goroutine can renew the lease
// at that time.
func TestLateRenewal(t *testing.T) {
	g := guard(t, func() {})
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	g.Extend(deadline.Now() + time.Hour)
}
