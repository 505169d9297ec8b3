package scheduler

import (
	"context"
	"slices"
	"sync"
)

// Limits configure a gate.
type Limits struct {
	// Max is how many calls run at the same time. 0 means no limit.
	Max int
	// Queue is how many more calls may wait. 0 means no limit. A negative value means that no call may wait.
	Queue int
	// Waits is called before a call waits. It may be nil.
	Waits func()
}

// Gates limit how many calls run at the same time, across sessions. Each gate has a name. Gates are safe for concurrent
// use.
type Gates struct {
	mu sync.Mutex
	by map[string]*gate
}

// gate is the state of one gate while calls run or wait.
type gate struct {
	inside  int
	waiting []*waiter // by priority, then by time
}

type waiter struct {
	priority int
	enter    chan struct{}
}

// FullError is returned if the queue of a gate is full.
type FullError struct{ Waiting int }

func (e *FullError) Error() string { return "too many calls are queued" }

// Enter waits until the gate has room. Calls of a higher priority enter first. The caller must call leave when the call
// has ended. The error is a [*FullError], which is returned at once, or that of ctx.
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
	if i < 0 { // it entered at the same moment
		leave()
	}
	return nil, ctx.Err()
}

// leave admits the next calls. limit may differ from the one at Enter.
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
