// Package scheduler determines the order of calls.
//
// [Scheduler.Enqueue] adds a call to the end of its session's line, and [Ticket.Claim] describes the call.
// [Ticket.Wait] waits until no earlier call of the session prevents the call from starting. [Why] returns the reason
// why one call waits for another. [Gates] limits the number of concurrent calls in all sessions.
package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Scheduler orders the calls of each session. It is safe for concurrent use.
type Scheduler struct {
	// Patience limits each wait whose [Reason.Brief] is true. Zero means [DefaultPatience]. Patience must be set before
	// the first call.
	Patience time.Duration

	maxParallel int

	mu       sync.Mutex
	sessions map[string]*line
}

// New returns a scheduler that runs at most maxParallel calls of a session at the same time. Calls of the kind Free do
// not count towards the limit.
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

// line holds the calls of one session that have not ended, in the order of their arrival.
type line struct {
	calls   []*place
	running int // number of running calls that count towards the limit
	loose   int // number of calls in the line without InOrder
	arrived int // number of calls in the line without a claim
	parked  int // number of calls that left the line and can come back; see [Ticket.Park]
}

// place is a call in a line.
type place struct {
	claim   *Claim    // nil until Claim
	since   time.Time // time of the call's arrival, or of its start
	running bool
	counted bool // whether the call counts towards the maximum number of concurrent calls
	ready   chan struct{}
	waited  bool // whether an earlier call made the call wait
	follows bool // whether an earlier call that can change the session made the call wait, or ended between Enqueue and Claim
	// impatient means that the brief wait is over. The field passed is the earlier call for which the call no longer
	// waited.
	impatient bool
	passed    *place
}

// free reports whether the call does not count towards the maximum number of concurrent calls.
func (p *place) free() bool { return p.claim.Kind == Free && !p.claim.InOrder }

// Ticket represents a call in the line of its session. A nil Ticket represents a child call, which does not wait.
type Ticket struct {
	s       *Scheduler
	session string
	line    *line
	place   *place
	last    Wait // reason for the wait at the time when Wait returned an error
}

// Enqueue adds a call to the end of its session's line without blocking. The call does not start before Claim describes
// it, and later calls wait until then. The caller must call Claim and then Wait, or Abandon.
func (s *Scheduler) Enqueue(session string) *Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[session]
	if l == nil {
		l = new(line)
		s.sessions[session] = l
	}
	p := &place{since: time.Now(), ready: make(chan struct{})}
	l.calls = append(l.calls, p)
	l.loose++
	l.arrived++
	return &Ticket{s: s, session: session, line: l, place: p}
}

// Claim describes the call. It must be called once, before Wait. While an earlier command can still change the working
// directory, the paths of a call that depends on the working directory are unknown.
func (k *Ticket) Claim(c Claim) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if c.InOrder {
		k.line.loose--
	}
	k.line.arrived--
	i := slices.Index(k.line.calls, k.place)
	if c.UsesDir && (k.place.follows ||
		slices.ContainsFunc(k.line.calls[:i], func(e *place) bool { return e.claim == nil || e.claim.Moves })) {
		c.Anywhere = true
	}
	k.place.claim = &c
	if i == len(k.line.calls)-1 {
		k.s.admit(k.line, i)
	} else {
		k.s.advance(k.line) // start later calls that waited for the description
	}
	k.place.waited = !k.place.running
	k.place.follows = k.place.follows || k.place.waited &&
		slices.ContainsFunc(k.line.calls[:i], func(e *place) bool { return e.claim == nil || e.claim.changes() })
}

// Follows reports whether calls that can change the session ended after Enqueue, or made the call wait. Claim
// determines this.
func (k *Ticket) Follows() bool { return k != nil && k.place.follows }

// Waits reports whether other calls prevented the start of the call when Claim described it.
func (k *Ticket) Waits() bool { return k != nil && k.place.waited }

// Wait waits until the call can start. The caller must call done at the end of the call. If Wait returns an error, it
// is the error of ctx.
func (k *Ticket) Wait(ctx context.Context) (done func(), err error) {
	if k == nil {
		return func() {}, ctx.Err()
	}
	var patience <-chan time.Time
	if k.place.waited && k.place.claim.Kind == Read {
		timer := time.NewTimer(cmp.Or(k.s.Patience, DefaultPatience))
		defer timer.Stop()
		patience = timer.C
	}
	for {
		select {
		case <-k.place.ready:
			return sync.OnceFunc(k.leave), nil
		case <-patience:
			k.s.mu.Lock()
			k.place.impatient = true
			k.s.advance(k.line)
			k.s.mu.Unlock()
		case <-ctx.Done(): // return the error even if the call could have started just before ctx ended
			k.last, _ = k.Waiting()
			k.leave()
			return nil, ctx.Err()
		}
	}
}

// leave removes the running or waiting call from its line.
func (k *Ticket) leave() {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	l := k.line
	i := slices.Index(l.calls, k.place)
	if i < 0 { // a parked call that did not come back
		return
	}
	if k.place.running && k.place.claim.changes() {
		for j, n := len(l.calls)-1, l.arrived; n > 0 && j > i; j-- {
			if p := l.calls[j]; p.claim == nil {
				p.follows = true // its session can have been loaded before this call changed it
				n--
			}
		}
	}
	copy(l.calls[1:i+1], l.calls[:i]) // efficient, because calls usually end near the front of a long line
	l.calls[0] = nil
	l.calls = l.calls[1:]
	if k.place.claim == nil {
		l.arrived--
	}
	if k.place.claim == nil || !k.place.claim.InOrder {
		l.loose--
	}
	if k.place.counted {
		l.running--
	}
	k.s.advance(l)
	k.forget()
}

// forget removes a line to which no call belongs. The caller must hold the lock.
func (k *Ticket) forget() {
	if l := k.line; len(l.calls) == 0 && l.parked == 0 && k.s.sessions[k.session] == l {
		delete(k.s.sessions, k.session)
	}
}

// Park takes a running call that has changed nothing out of its line, so that later calls need not wait for it. The
// caller must call back, which waits for a turn at the end of the line. If back returns an error, it is the error of
// ctx, and the call has no turn.
func (k *Ticket) Park() (back func(ctx context.Context) error) {
	k.s.mu.Lock()
	l, claim := k.line, *k.place.claim
	l.parked++
	k.s.mu.Unlock()
	k.leave()
	return func(ctx context.Context) error {
		k.s.mu.Lock()
		l.parked--
		if ctx.Err() != nil {
			k.forget()
			k.s.mu.Unlock()
			return ctx.Err()
		}
		k.place = &place{claim: &claim, since: time.Now(), ready: make(chan struct{}), waited: true}
		l.calls = append(l.calls, k.place)
		if !claim.InOrder {
			l.loose++
		}
		k.s.advance(l)
		k.s.mu.Unlock()
		_, err := k.Wait(ctx)
		return err
	}
}

// Abandon removes the call from the line. The caller uses Abandon in place of Wait.
func (k *Ticket) Abandon() { k.leave() }

// advance starts the calls of a line that no longer have to wait.
func (s *Scheduler) advance(l *line) {
	stopped := false // whether a call of a batch waits; all later calls of the batch then also wait
	for i, p := range l.calls {
		if p.running || p.claim == nil || stopped && p.claim.InOrder {
			continue
		}
		if s.admit(l, i) || !p.claim.InOrder {
			continue
		}
		if stopped = true; l.loose == 0 {
			return
		}
	}
}

// admit starts a waiting call if the call can start.
func (s *Scheduler) admit(l *line, i int) bool {
	p := l.calls[i]
	if !p.free() && l.running >= s.maxParallel {
		return false
	}
	if blocker, _ := l.blocker(i); blocker != nil {
		return false
	}
	p.running, p.since = true, time.Now()
	if p.counted = !p.free(); p.counted {
		l.running++
	}
	close(p.ready)
	return true
}

// blocker returns the first earlier call for which the call with index i must wait, and the reason. It
// returns nil if the call can start.
func (l *line) blocker(i int) (*place, Reason) {
	p := l.calls[i]
	p.passed = nil
	for _, e := range l.calls[:i] {
		if e.claim == nil {
			if !p.free() {
				return e, Reason{Text: "the call has just arrived"}
			}
			continue
		}
		why := Why(e.claim, p.claim)
		switch {
		case !why.Waits():
		case why.Brief && p.impatient:
			p.passed = e
		default:
			return e, why
		}
	}
	return nil, Reason{}
}

// Settle replaces the description of a running call. The new description must not have more effects than the old
// description. Later calls can then have fewer reasons to wait.
func (k *Ticket) Settle(c Claim) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	c.InOrder = k.place.claim.InOrder
	k.place.claim = &c
	k.s.advance(k.line)
}

// Keeps records that a running command will not change the working directory and the variables of its session. Later
// calls can then have fewer reasons to wait.
func (k *Ticket) Keeps() {
	if k == nil {
		return
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if !k.place.claim.Moves {
		return
	}
	changed := *k.place.claim // change a copy, because other goroutines read the labels of claims without the lock
	changed.Moves = false
	k.place.claim = &changed
	k.s.advance(k.line)
}

// Wait describes the reason why a call waits. The zero value means that the call could start.
type Wait struct {
	// Label names the call that must end first. It is empty if the call only waits for a free slot.
	Label  string
	Reason string
}

// Waiting returns the reason why the call waits. The result "ok" is false if the call can start.
func (k *Ticket) Waiting() (w Wait, ok bool) {
	if k == nil {
		return w, false
	}
	k.s.mu.Lock()
	p := k.place
	i := slices.Index(k.line.calls, p)
	if i < 0 || p.running {
		k.s.mu.Unlock()
		return w, false
	}
	w, label := k.line.waiting(i)
	k.s.mu.Unlock()
	w.Label = label()
	return w, true
}

// WaitedFor returns the reason why the call waited when Wait returned an error.
func (k *Ticket) WaitedFor() Wait { return k.last }

// Passed returns the label of the earlier call for which the call stopped waiting because the brief wait was over. The
// result "ok" is false if no such earlier call exists.
func (k *Ticket) Passed() (label string, ok bool) {
	if k == nil {
		return "", false
	}
	k.s.mu.Lock()
	passed := k.place.passed
	if passed == nil {
		k.s.mu.Unlock()
		return "", false
	}
	of := passed.label()
	k.s.mu.Unlock()
	return of(), true
}

// String returns a description for users, such as "bash: npm test (a session has one shell)".
func (w Wait) String() string {
	if w.Label == "" {
		return "other calls (" + cmp.Or(w.Reason, "they came first") + ")"
	}
	return w.Label + " (" + w.Reason + ")"
}

func (l *line) waiting(i int) (w Wait, label func() string) {
	blocker, why := l.blocker(i)
	if blocker == nil {
		return Wait{Reason: ReasonLimit}, func() string { return "" }
	}
	return Wait{Reason: why.Text}, blocker.label()
}

func (p *place) label() func() string {
	if p.claim == nil || p.claim.Label == nil {
		return func() string { return "an earlier call" }
	}
	return p.claim.Label
}

// CallStatus describes a call that has not ended.
type CallStatus struct {
	Session string `json:"session"`
	// ID is the id of the call, and Call is its label; see [Claim].
	ID      string `json:"-"`
	Call    string `json:"call"`
	Running bool   `json:"running"`
	// Since is the start time of a running call, or the arrival time of a waiting call.
	Since time.Time `json:"since"`
	// WaitsFor names the call that must end first, and Reason is the reason. Both fields are empty for a running call.
	WaitsFor string `json:"waits_for,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// ReasonLimit is the reason why a call waits if only the session's limit of concurrent calls prevents its start.
const ReasonLimit = "the session runs as many calls as it may at the same time"

// Calls lists the calls that have not ended, oldest first.
func (s *Scheduler) Calls() []CallStatus {
	type labels struct{ own, other func() string }
	out := []CallStatus{}
	var names []labels
	s.mu.Lock()
	for session, l := range s.sessions {
		for i, p := range l.calls {
			if p.claim == nil {
				continue
			}
			st, n := CallStatus{Session: session, ID: p.claim.ID, Running: p.running, Since: p.since},
				labels{own: p.label()}
			if !p.running {
				var w Wait
				w, n.other = l.waiting(i)
				st.Reason = w.Reason
			}
			out, names = append(out, st), append(names, n)
		}
	}
	s.mu.Unlock()
	for i, n := range names { // call the functions without the lock, because a label can take time
		out[i].Call = n.own()
		if n.other != nil {
			out[i].WaitsFor = n.other()
		}
	}
	slices.SortStableFunc(out, func(a, b CallStatus) int { return a.Since.Compare(b.Since) })
	return out
}
