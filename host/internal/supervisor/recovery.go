package supervisor

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"toolhost.dev/sdk/tool"
)

// Defaults of Restart.
const (
	DefaultMaxFailures = 5
	DefaultPause       = 30 * time.Second
)

const (
	// The first start after an end is at once; the ones after it wait, each twice as long.
	firstBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second
	// idleBackoff is how long it takes at least until a process is started that no call waits for.
	idleBackoff = 250 * time.Millisecond
	// provenAfter is how long a process lives that works, as far as can be told without a call.
	provenAfter = 30 * time.Second
	// maxKilledStarts bounds how often a start is repeated whose process was killed from outside.
	maxKilledStarts = 3
)

// Restart says what becomes of a plugin that ends by itself, or cannot be started; zero values
// mean the defaults. It is started again by the next call or shortly after, and later the more
// often in a row it came to nothing: a start that failed, or a process that ended without
// having answered a call. After MaxFailures of them it is left alone for Pause, and calls
// fail at once; then one start is tried.
type Restart struct {
	MaxFailures int
	Pause       time.Duration
}

// Event is a turn in a plugin's life.
type Event int

// The events.
const (
	Started   Event = iota + 1
	Ended           // by itself, in the middle of its life
	Failed          // a start
	Suspended       // it is left alone for a while
	Resumed         // it answered again after that
)

// recovery keeps how often a plugin came to nothing.
type recovery struct {
	restart Restart
	breaker circuitbreaker.CircuitBreaker[any]
	observe func(Event, string)

	mu       sync.Mutex
	row      int // starts in a row that came to nothing
	crashes  int
	lastWhy  string
	lastTime time.Time
}

func newRecovery(r Restart, observe func(Event, string)) *recovery {
	if r.MaxFailures <= 0 {
		r.MaxFailures = DefaultMaxFailures
	}
	if r.Pause <= 0 {
		r.Pause = DefaultPause
	}
	if observe == nil {
		observe = func(Event, string) {}
	}
	return &recovery{
		restart: r, observe: observe,
		breaker: circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(r.MaxFailures)).WithDelay(r.Pause).WithSuccessThreshold(1).Build(),
	}
}

// permit says why no start is to be tried now; nil: one may.
func (r *recovery) permit(plugin string) error {
	if r.breaker.TryAcquirePermit() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := "as soon as the start under way has ended"
	if d := r.breaker.RemainingDelay(); d > 0 {
		wait = "in " + d.Round(100*time.Millisecond).String()
	}
	return tool.Errorf(tool.Unavailable, "Plugin %s came to nothing %d times in a row and is left alone for now. It is tried again %s; toolhost plugin reload %s tries at once. The last time: %s",
		plugin, r.row, wait, plugin, r.lastWhy).From(tool.SourcePlugin)
}

// backoff is how long the next start waits.
func (r *recovery) backoff() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.row < 2 {
		return 0
	}
	return min(firstBackoff<<min(r.row-2, 10), maxBackoff)
}

// failed counts a start that failed.
func (r *recovery) failed(why string) {
	r.observe(Failed, why)
	r.nothing(why)
}

// ended counts the end of a process that nobody asked for. proven: it had worked.
func (r *recovery) ended(proven bool, why string) {
	r.mu.Lock()
	r.crashes++
	r.lastWhy, r.lastTime = why, time.Now()
	r.mu.Unlock()
	r.observe(Ended, why)
	if !proven || !r.breaker.IsClosed() { // a permit is given back only so
		r.nothing(why)
	}
}

func (r *recovery) nothing(why string) {
	r.mu.Lock()
	r.row++
	r.lastWhy, r.lastTime = why, time.Now()
	r.mu.Unlock()
	was := r.breaker.IsOpen()
	r.breaker.RecordFailure()
	if !was && r.breaker.IsOpen() {
		r.observe(Suspended, why)
	}
}

// proven is told of the first call that a process answers.
func (r *recovery) proven() {
	r.mu.Lock()
	r.row = 0
	r.mu.Unlock()
	was := r.breaker.IsClosed()
	r.breaker.RecordSuccess()
	if !was && r.breaker.IsClosed() {
		r.observe(Resumed, "")
	}
}

func (r *recovery) status(st *Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.Crashes, st.Failures = r.crashes, r.row
	if !r.lastTime.IsZero() {
		at := r.lastTime
		st.LastFailure, st.LastFailureAt = r.lastWhy, &at
	}
	switch r.breaker.State() {
	case circuitbreaker.OpenState:
		st.Breaker = "open"
		next := time.Now().Add(r.breaker.RemainingDelay())
		st.NextAttempt = &next
	case circuitbreaker.HalfOpenState:
		st.Breaker = "half-open"
	case circuitbreaker.ClosedState:
		st.Breaker = "closed"
	}
}

// Suspended reports whether the plugin is left alone because it came to nothing too often.
func (p *Plugin) Suspended() bool { return !p.recovery.breaker.IsClosed() }

// watch waits for an instance's end, and starts another if nobody does.
func (p *Plugin) watch(in *instance) {
	<-in.proc.exited
	p.forget(in)
	if p.users.ended.Load() || !p.recovery.breaker.IsClosed() {
		return
	}
	select {
	case <-time.After(max(idleBackoff, p.recovery.backoff())):
	case <-p.life.Done():
		return
	}
	_ = p.waitForStart(p.life) // the status says why not
}

// killedFromOutside reports whether a start failed only because somebody killed the process.
func killedFromOutside(in *instance) bool {
	if in == nil || !in.dead() {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(in.proc.exitErr, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *Plugin) crashed(call string, in *instance) *tool.Error {
	next := "It is started again"
	if !p.recovery.breaker.IsClosed() {
		next = fmt.Sprintf("It is left alone for a while, because that happened %d times in a row", p.recovery.restart.MaxFailures)
	}
	return tool.Errorf(tool.Unavailable, "Plugin %s ended during the call of %s (%s). %s; whether this call took effect is not known.",
		p.spec.Name, call, in.proc.exitText(), next).From(tool.SourcePlugin)
}
