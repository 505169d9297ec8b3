package call

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// maxLarge limits the large results that are in memory at the same time, in bytes. It is the room for two of the
// largest results, so that one that is slow to send or to shorten does not stop all others. A result needs about twice
// its size while it is decoded.
const maxLarge = 64 << 20

// large is the room for large results in this process. All hosts in it share its memory.
var large = semaphore.NewWeighted(maxLarge)

// Receive implements [tool.Receiver]. A call that is repeated gives back the room of its earlier result first, so that
// no call has room while it waits for more.
func (p *peer) Receive(ctx context.Context, bytes int64) error {
	p.call.leaveRoom()
	bytes = min(bytes, maxLarge)
	if !large.TryAcquire(bytes) && large.Acquire(ctx, bytes) != nil { // a canceled call can still send what it has
		return context.Cause(ctx)
	}
	p.call.room = bytes
	return nil
}

// leaveRoom releases the room of the call's result.
func (c *Call) leaveRoom() {
	if c.room > 0 {
		large.Release(c.room)
		c.room = 0
	}
}
