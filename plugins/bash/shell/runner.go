package shell

import (
	"slices"
	"sync"
	"time"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
)

// MaxIdle is how many shells wait for a command by default.
const MaxIdle = 8

// afterTime is how long nothing is started after a command, so that its result comes
// first, and a command that follows at once is not kept waiting by what is not for it.
const afterTime = 3 * time.Millisecond

// hurry is how soon after a command the next one of its session has to come for the shell after
// that to be started at once: who calls without a pause waits for nothing but shells.
const hurry = 10 * time.Millisecond

// idleTime is how long a shell waits for a command.
const idleTime = 5 * time.Minute

// Runner runs commands. For the next command of a session it keeps a shell that has
// been started already, with the session's state restored: it is used once, and only
// when that is the state, the environment and the directory that the command is to
// have. It is safe for concurrent use. Use [NewRunner].
type Runner struct {
	keeper  *process.Keeper
	maxIdle int
	guard   sync.Once

	mu      sync.Mutex
	idle    map[string]*spare // by session
	order   []*spare          // those of idle, oldest first
	working bool              // the goroutine that starts them runs
	closed  bool
	// last is the session that a command ended in last, and when, and whether it had come
	// in a hurry.
	last struct {
		session string
		ended   time.Time
		hurried bool
	}
}

// spare is a shell for the next command of a session.
type spare struct {
	session string
	seed    Seed
	from    time.Time // not to be started before
	begun   bool      // it is being started, or was
	dropped bool      // nobody wants it any more
	timer   *time.Timer

	started chan struct{} // closed when it was started
	in      *instance     // nil: it could not be started
}

// NewRunner makes a runner that keeps at most maxIdle shells ready.
func NewRunner(maxIdle int) *Runner {
	return &Runner{keeper: process.NewKeeper(), maxIdle: maxIdle, idle: make(map[string]*spare)}
}

// Close kills everything that commands have started, and the shells that wait. Commands
// that are started after it do not run.
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

// Start runs a command of the session id.
func (r *Runner) Start(id string, c Command) *Process {
	r.guard.Do(func() {
		go func() { _ = r.keeper.Guard(c.Bash) }() // without it a killed plugin leaves more behind
	})
	c.kind = c.State.Kind(c.Text)
	p := &Process{runner: r, c: c, began: time.Now(), stop: make(chan Ending, 1), done: make(chan struct{}), writing: make(chan struct{}, 1), attached: make(chan struct{})}
	var warm *instance
	if !c.KeepStdin && (c.Stdin == nil || !c.State.Defines("exec")) {
		warm = r.take(id, &c.Seed)
	}
	if r.hurries(id) && c.kind != session.Ordinary { // it is known already what the next one is to find
		r.prepare(id, c.Seed, 0)
	}
	go p.run(warm)
	return p
}

// hurries notes that a command comes, and reports whether its session's last one has only
// just ended.
func (r *Runner) hurries(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.hurried = r.last.session == session && time.Since(r.last.ended) < hurry
	return r.last.hurried
}

// Prepare has a shell ready for the next command of a session, when one has ended. It does
// not wait for it.
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

// work starts the shells that are wanted, one after the other: a machine that is busy
// with commands has nothing to gain from more.
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
			continue // it may not be wanted any more
		}
		next.begun = true
		r.mu.Unlock()
		in, err := newInstance(r.keeper, &next.seed, nil)
		r.mu.Lock()
		if err != nil {
			close(next.started) // the next command finds the same, and tells it
			continue
		}
		next.in = in
		close(next.started)
		switch {
		case next.dropped:
			go in.discard()
		case r.idle[next.session] == next: // else it was taken
			next.timer = time.AfterFunc(idleTime, func() { r.expire(next) })
		}
	}
}

// expire ends a shell that has waited too long.
func (r *Runner) expire(s *spare) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle[s.session] == s {
		r.remove(s)
	}
}

// remove drops a spare shell. It does nothing for nil.
func (r *Runner) remove(s *spare) {
	if s != nil {
		r.forget(s)
		r.drop(s)
	}
}

// forget takes a spare shell from the list.
func (r *Runner) forget(s *spare) {
	delete(r.idle, s.session)
	for i, o := range r.order {
		if o == s {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// drop ends a shell that is in the list no more.
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

// take returns the shell that is ready for a command of the session, or will be soon; nil
// when there is none that fits.
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
	case <-s.in.tree.Done(): // killed by someone
	default:
		if s.in.standsIn(seed.Dir) {
			return s.in
		}
	}
	go s.in.discard()
	return nil
}

// Idle returns the process ids of the shells that wait for a command, or are about to: it
// waits until those that are wanted were started.
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
