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
	// Arrived is the announcement of the call, or nil. Enter does not check Queue for an announced call.
	Arrived *Arrival
}

// Arrival is a call that was announced to its gate by [Gates.Arrive].
type Arrival struct {
	gates *Gates
	name  string
	gone  bool
}

// Arrive announces a call before the call enters a gate. The announced call can still wait for its session. If the
// number of running, waiting and announced calls has reached the limits, Arrive returns a [*FullError]. The caller must
// pass the arrival to Enter, or call Leave.
func (g *Gates) Arrive(name string, l Limits) (*Arrival, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.gate(name)
	if total := at.inside + len(at.waiting) + at.arrived; l.Queue != 0 && total >= l.Max+max(0, l.Queue) {
		return nil, &FullError{Waiting: total - l.Max}
	}
	at.arrived++
	return &Arrival{gates: g, name: name}, nil
}

// Leave ends the announcement. Repeated calls, and calls after Enter, have no effect.
func (a *Arrival) Leave() {
	a.gates.mu.Lock()
	defer a.gates.mu.Unlock()
	at := a.gates.gate(a.name)
	a.leave(at)
	a.gates.forget(a.name, at)
}

func (a *Arrival) leave(at *gate) {
	if !a.gone {
		a.gone = true
		at.arrived--
	}
}

// gate returns the gate with a name. It creates a missing gate.
func (g *Gates) gate(name string) *gate {
	if g.by == nil {
		g.by = make(map[string]*gate)
	}
	at := g.by[name]
	if at == nil {
		at = new(gate)
		g.by[name] = at
	}
	return at
}

// forget removes a gate without calls.
func (g *Gates) forget(name string, at *gate) {
	if at.inside == 0 && at.arrived == 0 && len(at.waiting) == 0 {
		delete(g.by, name)
	}
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
	arrived int       // number of announced calls that have not entered yet
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
	at := g.gate(name)
	if l.Arrived != nil {
		l.Arrived.leave(at)
		l.Queue = 0
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

// leave frees a slot of the gate and admits waiting calls. The limit can differ from the limit in the call
// of Enter.
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
	g.forget(name, at)
}
