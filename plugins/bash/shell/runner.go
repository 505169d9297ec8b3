package shell

import (
	"slices"
	"sync"
	"time"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
)

// MaxIdle is the default number of shells that are kept ready.
const MaxIdle = 8

// afterTime is the time after a command in which no shell is started. During this time, the command's result is
// sent, and an immediate next command is not delayed.
const afterTime = 3 * time.Millisecond

// hurry is the limit for a short pause between two commands of a session. After a short pause, the next shell is
// started at once. Otherwise a caller that sends commands without pauses would wait for each shell.
const hurry = 10 * time.Millisecond

// idleTime is the time after which an unused shell is ended.
const idleTime = 5 * time.Minute

// Runner runs commands. For the next command of a session, it prepares a shell in which the session's state is
// already restored. A prepared shell is used at most once, and only if its state, environment and directory match
// the command. A Runner is safe for concurrent use. Use [NewRunner] to create a Runner.
type Runner struct {
	keeper  *process.Keeper
	maxIdle int
	guard   sync.Once

	mu      sync.Mutex
	idle    map[string]*spare // prepared shells, indexed by session
	order   []*spare          // the elements of idle, the oldest first
	working bool              // true while the goroutine of the method work runs
	closed  bool
	// last describes the command that ended last: its session, the time of its end, and whether the pause before it
	// was shorter than hurry.
	last struct {
		session string
		ended   time.Time
		hurried bool
	}
}

// spare is a prepared shell for the next command of a session.
type spare struct {
	session string
	seed    Seed
	from    time.Time // earliest time at which the shell is started
	begun   bool      // true if the start of the shell has begun
	dropped bool      // true if the shell is no longer needed
	timer   *time.Timer

	started chan struct{} // closed when the shell is started
	in      *instance     // nil if the shell could not be started
}

// NewRunner returns a runner that keeps at most maxIdle shells ready.
func NewRunner(maxIdle int) *Runner {
	return &Runner{keeper: process.NewKeeper(), maxIdle: maxIdle, idle: make(map[string]*spare)}
}

// Close kills all processes that commands have started, and the prepared shells. After Close, no command can run.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for _, s := range r.order {
		r.drop(s)
	}
	r.order = nil
	clear(r.idle)
	r.mu.Unlock()
	r.keeper.Close()
}

// Start runs a command of the session with the given id.
func (r *Runner) Start(id string, c Command) *Process {
	r.guard.Do(func() {
		go func() { _ = r.keeper.Guard(c.Bash) }() // ignore the error: a guard is only needed if the plugin is killed
	})
	c.kind = c.State.Kind(c.Text)
	p := &Process{runner: r, c: c, began: time.Now(), stop: make(chan Ending, 1), done: make(chan struct{}),
		writing: make(chan struct{}, 1), attached: make(chan struct{})}
	var warm *instance
	if !c.KeepStdin && (c.Stdin == nil || !c.State.Defines("exec")) {
		warm = r.take(id, &c.Seed)
	}
	if r.hurries(id) && c.kind != session.Ordinary { // the state does not change, so the next shell can start now
		r.prepare(id, c.Seed, 0)
	}
	go p.run(warm)
	return p
}

// hurries records a new command. It reports whether the session's previous command ended a short time ago.
func (r *Runner) hurries(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.hurried = r.last.session == session && time.Since(r.last.ended) < hurry
	return r.last.hurried
}

// Prepare starts a shell in the background for the next command of a session. It must be called after a command has
// ended.
func (r *Runner) Prepare(session string, seed Seed) {
	rest := afterTime
	r.mu.Lock()
	r.last.session, r.last.ended = session, time.Now()
	if r.last.hurried {
		rest = 0
	}
	r.mu.Unlock()
	r.prepare(session, seed, rest)
}

func (r *Runner) prepare(session string, seed Seed, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.maxIdle <= 0 {
		return
	}
	if s := r.idle[session]; s != nil && s.seed.same(&seed) {
		return
	}
	r.remove(r.idle[session])
	for len(r.order) >= r.maxIdle {
		r.remove(r.order[0])
	}
	s := &spare{session: session, seed: seed, from: time.Now().Add(rest), started: make(chan struct{})}
	r.idle[session] = s
	r.order = append(r.order, s)
	if !r.working {
		r.working = true
		go r.work()
	}
}

// work starts the needed shells one after the other. On a busy machine, parallel starts would only be slower.
func (r *Runner) work() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var next *spare
		for _, s := range r.order {
			if !s.begun {
				next = s
				break
			}
		}
		if next == nil {
			r.working = false
			return
		}
		if rest := time.Until(next.from); rest > 0 {
			r.mu.Unlock()
			time.Sleep(rest)
			r.mu.Lock()
			continue // the lock was released, so check again whether the shell is needed
		}
		next.begun = true
		r.mu.Unlock()
		in, err := newInstance(r.keeper, &next.seed, nil)
		r.mu.Lock()
		if err != nil {
			close(next.started) // ignore the error: the next command gets the same error and reports it
			continue
		}
		next.in = in
		close(next.started)
		switch {
		case next.dropped:
			go in.discard()
		case r.idle[next.session] == next: // no command has used the shell in the meantime
			next.timer = time.AfterFunc(idleTime, func() { r.expire(next) })
		}
	}
}

// expire ends a prepared shell that has waited too long.
func (r *Runner) expire(s *spare) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle[s.session] == s {
		r.remove(s)
	}
}

// remove removes a spare shell from the lists and ends it. It does nothing for nil.
func (r *Runner) remove(s *spare) {
	if s != nil {
		r.forget(s)
		r.drop(s)
	}
}

// forget removes a spare shell from the lists without ending it.
func (r *Runner) forget(s *spare) {
	delete(r.idle, s.session)
	for i, o := range r.order {
		if o == s {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// drop ends a spare shell that was removed from the lists.
func (r *Runner) drop(s *spare) {
	if s.dropped = true; !s.begun {
		close(s.started)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.in != nil {
		go s.in.discard()
	}
}

// take returns a prepared shell for a command of the session. If the shell is still being started, take waits for
// it. It returns nil if no shell matches.
func (r *Runner) take(session string, seed *Seed) *instance {
	r.mu.Lock()
	s := r.idle[session]
	if s == nil || !s.begun || !s.seed.same(seed) {
		r.remove(s)
		r.mu.Unlock()
		return nil
	}
	r.forget(s)
	if s.timer != nil {
		s.timer.Stop()
	}
	r.mu.Unlock()
	<-s.started
	if s.in == nil {
		return nil
	}
	select {
	case <-s.in.tree.Done(): // another program has killed the shell
	default:
		if s.in.standsIn(seed.Dir) {
			return s.in
		}
	}
	go s.in.discard()
	return nil
}

// Idle returns the process ids of the prepared shells. It first waits until all requested shells are started.
func (r *Runner) Idle() []int {
	r.mu.Lock()
	waiting := slices.Clone(r.order)
	r.mu.Unlock()
	var pids []int
	for _, s := range waiting {
		<-s.started
		if s.in != nil {
			pids = append(pids, s.in.tree.Pid())
		}
	}
	return pids
}
