package scheduler

import (
	"context"
	"slices"
	"sync"
)

// Limits holds the limits of a gate.
type Limits struct {
	// Max is the maximum number of concurrent calls. Zero means no limit.
	Max int
	// Queue is the maximum number of waiting calls. Zero means no limit. A negative value means that no call can wait.
	Queue int
	// Waits is called if a call must wait, before the wait. Waits can be nil.
	Waits func()
}

// Gates limits the number of concurrent calls in all sessions. Each gate has a name and its own limits. Gates is safe
// for concurrent use.
type Gates struct {
	mu sync.Mutex
	by map[string]*gate
}

// gate is the state of one gate. It exists while calls run or wait.
type gate struct {
	inside  int
	waiting []*waiter // sorted by priority and then by time
}

type waiter struct {
	priority int
	enter    chan struct{}
}

// FullError reports that the queue of a gate is full.
type FullError struct{ Waiting int }

func (e *FullError) Error() string { return "too many calls are queued" }

// Enter waits until the gate has a free slot. Calls with a higher priority enter first. The caller must call leave at
// the end of the call. If the queue is full, Enter immediately returns a [*FullError]. Any other error is the error of
// ctx.
func (g *Gates) Enter(ctx context.Context, name string, l Limits, priority int) (leave func(), err error) {
	if l.Max <= 0 {
		return func() {}, ctx.Err()
	}
	leave = sync.OnceFunc(func() { g.leave(name, l.Max) })
	g.mu.Lock()
	if g.by == nil {
		g.by = make(map[string]*gate)
	}
	at := g.by[name]
	if at == nil {
		at = new(gate)
		g.by[name] = at
	}
	switch {
	case at.inside < l.Max && len(at.waiting) == 0:
		at.inside++
		g.mu.Unlock()
		return leave, nil
	case l.Queue < 0 || l.Queue > 0 && len(at.waiting) >= l.Queue:
		n := len(at.waiting)
		g.mu.Unlock()
		return nil, &FullError{Waiting: n}
	}
	w := &waiter{priority: priority, enter: make(chan struct{})}
	i := len(at.waiting)
	for i > 0 && at.waiting[i-1].priority < priority {
		i--
	}
	at.waiting = slices.Insert(at.waiting, i, w)
	g.mu.Unlock()
	if l.Waits != nil {
		l.Waits()
	}
	select {
	case <-w.enter:
		return leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i = slices.Index(at.waiting, w)
	if i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // the gate admitted the call just before ctx ended
		leave()
	}
	return nil, ctx.Err()
}

// leave frees a slot of the gate and admits waiting calls. The limit can have changed since the call of Enter.
func (g *Gates) leave(name string, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.by[name]
	at.inside--
	for at.inside < limit && len(at.waiting) > 0 {
		close(at.waiting[0].enter)
		at.waiting = at.waiting[1:]
		at.inside++
	}
	if at.inside == 0 && len(at.waiting) == 0 {
		delete(g.by, name)
	}
}
