// Package scheduler determines the order of calls.
//
// [Scheduler.Enqueue] queues a call in its session. [Ticket.Wait] waits until the call can start. Concurrency-safe calls
// run together, and any other call runs alone. Calls start in the order in which they were queued. [Gates] limits the
// number of concurrent calls in all sessions.
package scheduler

import (
	"context"
	"slices"
	"sync"
)

// Scheduler orders the calls of each session. It is safe for concurrent use.
type Scheduler struct {
	maxParallel int

	mu       sync.Mutex
	sessions map[string]*line
}

// New returns a scheduler that runs at most maxParallel calls of a session at the same time.
func New(maxParallel int) *Scheduler {
	return &Scheduler{maxParallel: max(1, maxParallel), sessions: make(map[string]*line)}
}

// SetMaxParallel changes the maximum number of concurrent calls of a session. It does not stop running calls.
func (s *Scheduler) SetMaxParallel(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxParallel = max(1, n)
	for _, l := range s.sessions {
		s.advance(l)
	}
}

// line holds the running and waiting calls of one session.
type line struct {
	running int
	alone   bool // whether the running call does not permit concurrent calls
	waiting []*turn
}

type turn struct {
	safe  bool
	ready chan struct{}
}

// Ticket represents a call in the queue of its session. A nil Ticket represents a child call, which does not wait.
type Ticket struct {
	s       *Scheduler
	session string
	line    *line
	turn    *turn
	waits   bool
}

// Waits reports whether other calls prevented the call from starting when it was queued.
func (k *Ticket) Waits() bool { return k != nil && k.waits }

// Enqueue adds a call to the end of its session's queue without blocking. The argument safe reports whether the call can
// run together with other calls. The caller must call Wait or Abandon on the ticket.
func (s *Scheduler) Enqueue(session string, safe bool) *Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[session]
	if l == nil {
		l = new(line)
		s.sessions[session] = l
	}
	t := &turn{safe: safe, ready: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	s.advance(l)
	return &Ticket{s: s, session: session, line: l, turn: t, waits: slices.Contains(l.waiting, t)}
}

// Wait waits until the call can start. The caller must call done at the end of the call. If Wait returns an error, it is
// the error of ctx.
func (k *Ticket) Wait(ctx context.Context) (done func(), err error) {
	if k == nil {
		return func() {}, ctx.Err()
	}
	select {
	case <-k.turn.ready:
		return sync.OnceFunc(k.leave), nil
	case <-ctx.Done():
	}
	k.s.mu.Lock()
	select {
	case <-k.turn.ready: // the call could start just before ctx ended
		k.s.mu.Unlock()
		k.leave()
		return nil, ctx.Err()
	default:
	}
	for i, t := range k.line.waiting {
		if t == k.turn {
			k.line.waiting = append(k.line.waiting[:i], k.line.waiting[i+1:]...)
			break
		}
	}
	k.s.advance(k.line) // later calls may have waited only for the abandoned call
	k.s.forget(k.session, k.line)
	k.s.mu.Unlock()
	return nil, ctx.Err()
}

func (k *Ticket) leave() {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.line.running--
	if k.line.running == 0 {
		k.line.alone = false
	}
	k.s.advance(k.line)
	k.s.forget(k.session, k.line)
}

// advance starts waiting calls from the front of the queue, as many as the limits permit.
func (s *Scheduler) advance(l *line) {
	for len(l.waiting) > 0 {
		t := l.waiting[0]
		if l.alone || l.running >= s.maxParallel || !t.safe && l.running > 0 {
			return
		}
		l.waiting = l.waiting[1:]
		l.running++
		l.alone = !t.safe
		close(t.ready)
	}
}

func (s *Scheduler) forget(session string, l *line) {
	if l.running == 0 && len(l.waiting) == 0 && s.sessions[session] == l {
		delete(s.sessions, session)
	}
}

// Abandon removes the call from the queue. The caller uses Abandon in place of Wait.
func (k *Ticket) Abandon() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if done, err := k.Wait(gone); err == nil {
		done()
	}
}
