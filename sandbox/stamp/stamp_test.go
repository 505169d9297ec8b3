package stamp

import (
	"testing"
	"time"
)

// TestSame checks that a stamp is trusted only if it was taken so late that every later change must have a different
// time.
func TestSame(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		taken time.Duration // time between the change and the stamp
		other Stamp
		want  bool
	}{
		{time.Second, Stamp{Sec: 1000}, true},
		{time.Second, Stamp{Sec: 1000, Nsec: 1}, false},
		{time.Second, Stamp{Sec: 1000, Ino: 1}, false},
		{time.Second, Stamp{Sec: 1000, Dev: 1}, false},
		{time.Second, Stamp{Sec: 1000, Mode: 1}, false},
		{time.Second, Stamp{Sec: 1000, Size: 1}, false},
		{time.Millisecond, Stamp{Sec: 1000}, false},
		{-time.Hour, Stamp{Sec: 1000}, false}, // a different clock, or a clock that went back
	} {
		s := Stamp{Sec: 1000, Taken: now.Add(c.taken)}
		if got := s.Same(&c.other); got != c.want {
			t.Errorf("%v later, %+v: %v", c.taken, c.other, got)
		}
	}
}
