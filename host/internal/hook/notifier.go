package hook

import (
	"context"
	"sync"
	"time"
)

// notifierGrace is the time for which [Notifier.Close] waits for queued notifications.
const notifierGrace = 5 * time.Second

// Notifier runs the notifications of hooks in the background, one after another. The zero value is ready to use. It is
// safe for concurrent use.
type Notifier struct {
	mu      sync.Mutex
	queue   []func(context.Context)
	running bool
	closed  bool
	idle    sync.WaitGroup
	cancel  context.CancelFunc
}

// Add queues notifications and returns immediately. After Close, it drops them.
func (n *Notifier) Add(notify []func(context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(notify) == 0 {
		return
	}
	n.queue = append(n.queue, notify...)
	if n.running {
		return
	}
	n.running = true
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.idle.Go(func() {
		defer cancel()
		for next := n.next(); next != nil; next = n.next() {
			next(ctx)
		}
	})
}

// next removes and returns the first notification in the queue. It returns nil if the queue is empty.
func (n *Notifier) next() func(context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		n.running = false
		return nil
	}
	next := n.queue[0]
	n.queue = n.queue[1:]
	return next
}

// Close waits up to notifierGrace for the queued notifications. Then it cancels the running notification and drops the
// notifications that are still queued.
func (n *Notifier) Close() {
	n.mu.Lock()
	n.closed = true
	stop := time.AfterFunc(notifierGrace, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = nil
		if n.cancel != nil {
			n.cancel()
		}
	})
	n.mu.Unlock()
	n.idle.Wait()
	stop.Stop()
}
