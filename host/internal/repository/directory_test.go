package repository

import (
	"testing"
	"time"
)

// TestRecentStates checks that a state counts only if a later change certainly has another time.
func TestRecentStates(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		taken time.Duration // after the change
		other stamp
		want  bool
	}{
		{time.Second, stamp{sec: 1000}, true},
		{time.Second, stamp{sec: 1000, nsec: 1}, false},
		{time.Second, stamp{sec: 1000, ino: 1}, false},
		{time.Second, stamp{sec: 1000, mode: 1}, false},
		{time.Second, stamp{sec: 1000, size: 1}, false},
		{time.Millisecond, stamp{sec: 1000}, false},
		{-time.Hour, stamp{sec: 1000}, false}, // another clock, or one that was set back
	} {
		s := stamp{sec: 1000, taken: now.Add(c.taken)}
		if got := s.same(&c.other); got != c.want {
			t.Errorf("%v later, %+v: %v", c.taken, c.other, got)
		}
	}
}
