package lease

import (
	"testing"
	"time"
)

// TestServerClock checks that a node knows the server's time, whatever time its own clock shows. It must not matter
// whether a record or the confirmation of the write arrives first.
func TestServerClock(t *testing.T) {
	server := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	var c serverClock
	if d := time.Since(c.now(0)); d < 0 || d > time.Minute {
		t.Errorf("before the first sample, the clock differs by %s", d)
	}
	c.confirmed(7, time.Hour)
	c.seen(6, server.Add(-time.Hour)) // another record
	if c.now(time.Hour).Before(server) {
		t.Error("the time of another record was used")
	}
	c.seen(7, server)
	if now := c.now(time.Hour + 5*time.Second); !now.Equal(server.Add(5 * time.Second)) {
		t.Errorf("5 s after the record: %s", now)
	}
	c.seen(8, server.Add(time.Minute))
	c.confirmed(8, time.Hour+time.Minute)
	if now := c.now(time.Hour + time.Minute); !now.Equal(server.Add(time.Minute)) {
		t.Errorf("after the second record: %s", now)
	}
}
