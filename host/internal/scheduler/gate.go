package scheduler

import (
	"context"
	"slices"
	"sync"
)

// Limits of what runs at the same time.
type Limits struct {
	// Max calls run at once; 0: any number.
	Max int
	// Queue is how many more may wait; 0: any number; negative: none.
	Queue int
	// Waits is called, before that, when one has to wait. nil: nobody wants to know.
	Waits func()
}

// Gates let a limited number of calls run at the same time, whichever session they are of. They
// are told apart by names, and safe for concurrent use.
type Gates struct {
	mu sync.Mutex
	by map[string]*gate
}

// gate is one of them, while somebody is inside or waits.
type gate struct {
	inside  int
	waiting []*waiter // by priority, then as they came
}

type waiter struct {
	priority int
	enter    chan struct{}
}

// FullError says that too many calls wait already.
type FullError struct{ Waiting int }

func (e *FullError) Error() string { return "too many calls wait" }

// Enter waits until there is room behind a gate; those of a higher priority come first. leave must be
// called when the call has ended. The error is a [*FullError], at once, or ctx's.
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
	if i < 0 { // it was let in in the same moment
		leave()
	}
	return nil, ctx.Err()
}

// leave lets others in. The limit may have changed meanwhile.
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
