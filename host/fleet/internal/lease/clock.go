package lease

import (
	"sync"
	"time"
)

// serverClock learns the time of the coordinators from the renewals of the lease: the server adds a time to each
// record, and the node knows when the record was confirmed. serverClock has a lock of its own to avoid a deadlock:
// callers of [Keeper.Now] hold locks that [Settings.Lost] takes, and the keeper calls Lost while it holds its own lock.
type serverClock struct {
	mu sync.Mutex

	ackRevision, seenRevision uint64
	ackAt                     time.Duration // time since boot
	created                   time.Time     // by the server

	at   time.Duration // time since boot at which the server had the time base; zero if it is not known
	base time.Time
}

// confirmed notes when the server confirmed a revision of this node's record.
func (c *serverClock) confirmed(revision uint64, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ackRevision, c.ackAt = revision, at
	c.match()
}

// seen notes the time that the server added to a revision of this node's record.
func (c *serverClock) seen(revision uint64, created time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seenRevision, c.created = revision, created
	c.match()
}

// match sets the clock if confirmed and seen were called with the same revision. They can be called in either order.
// The caller must hold the lock.
func (c *serverClock) match() {
	if c.ackRevision == c.seenRevision && c.ackRevision != 0 {
		c.at, c.base = c.ackAt, c.created
	}
}

func (c *serverClock) now(at time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() {
		return time.Now()
	}
	return c.base.Add(at - c.at)
}
