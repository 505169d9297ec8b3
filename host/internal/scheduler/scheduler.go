// Package scheduler decides when a call runs: calls of a session that are safe
// beside others run together, any other runs alone, in the order in which they came.
package scheduler

import (
	"context"
	"slices"
	"sync"
)

// Scheduler is safe for concurrent use.
type Scheduler struct {
	maxParallel int

	mu       sync.Mutex
	sessions map[string]*line
}

// New makes a scheduler that lets at most maxParallel calls of a session run at once.
func New(maxParallel int) *Scheduler {
	return &Scheduler{maxParallel: max(1, maxParallel), sessions: make(map[string]*line)}
}

// SetMaxParallel changes how many calls of a session run at once, from the next on.
func (s *Scheduler) SetMaxParallel(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxParallel = max(1, n)
	for _, l := range s.sessions {
		s.advance(l)
	}
}

// line is the calls of one session: those that run, and those that wait.
type line struct {
	running int
	alone   bool // the one that runs is not safe beside others
	waiting []*turn
}

type turn struct {
	safe  bool
	ready chan struct{}
}

// Ticket is a place in a session's line. The nil ticket is that of a call that runs
// inside of another: it need not wait.
type Ticket struct {
	s       *Scheduler
	session string
	line    *line
	turn    *turn
	waits   bool
}

// Waits reports whether there were others to wait for when the place was taken.
func (k *Ticket) Waits() bool { return k != nil && k.waits }

// Enqueue takes a place in the line without waiting. Wait must be called on it.
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

// Wait waits for the place to come first; places come in the order of Enqueue. done
// must be called when the call has ended. The error is ctx's.
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
	case <-k.turn.ready: // it came in the same moment
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
	k.s.advance(k.line) // those behind may have waited for this one only
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

// advance lets the first of the line run as long as they may.
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

// Abandon gives the place up without using it. It may be called instead of Wait.
func (k *Ticket) Abandon() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if done, err := k.Wait(gone); err == nil {
		done()
	}
}
