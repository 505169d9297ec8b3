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

// Default values for [Restart].
const (
	DefaultMaxFailures = 5
	DefaultPause       = 30 * time.Second
)

const (
	// The first restart has no delay. The second restart waits for firstBackoff, and the delay doubles up to
	// maxBackoff.
	firstBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second
	// idleBackoff is the minimum delay before a restart without a waiting call.
	idleBackoff = 250 * time.Millisecond
	// provenAfter is the time after which a process counts as working even if it answered no call.
	provenAfter = 30 * time.Second
	// maxKilledStarts limits how often the host repeats a start because another program killed the process.
	maxKilledStarts = 3
)

// Restart is the restart policy for a plugin that does not start or exits unexpectedly. Zero fields keep the defaults.
//
// A failure is a failed start, or the exit of a process that answered no call. After a failure, the next call restarts
// the plugin. Without a call, the supervisor restarts it after a short delay. The delay increases with the number of
// consecutive failures. After MaxFailures, the plugin is suspended for Pause, and all calls fail immediately. Then the
// supervisor tries a single start.
type Restart struct {
	MaxFailures int
	Pause       time.Duration
}

// Event is an event in the life of a plugin's process.
type Event int

// Kinds of events.
const (
	Started   Event = iota + 1
	Ended           // the process exited unexpectedly
	Failed          // a start failed
	Suspended       // the plugin failed too often
	Resumed         // a suspended plugin answered a call
)

// recovery counts the failures of a plugin.
type recovery struct {
	restart Restart
	breaker circuitbreaker.CircuitBreaker[any]
	observe func(Event, string)

	mu       sync.Mutex
	row      int // number of consecutive failures
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
		breaker: circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(r.MaxFailures)).WithDelay(r.Pause).
			WithSuccessThreshold(1).Build(),
	}
}

// permit returns an error if the plugin is suspended. If it returns nil, the caller can try a start.
func (r *recovery) permit(plugin string) error {
	if r.breaker.TryAcquirePermit() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := "after the current start attempt"
	if d := r.breaker.RemainingDelay(); d > 0 {
		wait = "in " + d.Round(100*time.Millisecond).String()
	}
	return tool.Errorf(tool.Unavailable, "Plugin %s failed %d times in a row and is suspended. The next start is %s. To start it now, run toolhost plugin reload %s. Last failure: %s",
		plugin, r.row, wait, plugin, r.lastWhy).From(tool.SourcePlugin)
}

// backoff returns the delay before the next start of the plugin.
func (r *recovery) backoff() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.row < 2 {
		return 0
	}
	return min(firstBackoff<<min(r.row-2, 10), maxBackoff)
}

// failed records a failed start.
func (r *recovery) failed(why string) {
	r.observe(Failed, why)
	r.count(why)
}

// ended records an unexpected exit of a process. The argument "proven" reports whether the process answered a
// call before.
func (r *recovery) ended(proven bool, why string) {
	r.mu.Lock()
	r.crashes++
	r.lastWhy, r.lastTime = why, time.Now()
	r.mu.Unlock()
	r.observe(Ended, why)
	if !proven || !r.breaker.IsClosed() { // in other states, the breaker needs every result before it permits another start
		r.count(why)
	}
}

// count increments the number of consecutive failures.
func (r *recovery) count(why string) {
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

// proven resets the number of consecutive failures. It must be called when a process answers its first
// call.
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

// absolve resets the failures if the arguments of a call are their cause.
func (r *recovery) absolve() { r.proven() }

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
		st.Breaker = BreakerOpen
		next := time.Now().Add(r.breaker.RemainingDelay())
		st.NextAttempt = &next
	case circuitbreaker.HalfOpenState:
		st.Breaker = BreakerHalfOpen
	case circuitbreaker.ClosedState:
		st.Breaker = BreakerClosed
	}
}

// Suspended reports whether the plugin is suspended because of repeated failures.
func (p *Plugin) Suspended() bool { return !p.recovery.breaker.IsClosed() }

// watch waits for the end of an instance. It restarts the plugin if no call restarts it first.
func (p *Plugin) watch(in *instance) {
	p.watchForStop(in)
	p.forget(in)
	if p.users.ended.Load() || !p.recovery.breaker.IsClosed() {
		return
	}
	select {
	case <-time.After(max(idleBackoff, p.recovery.backoff())):
	case <-p.life.Done():
		return
	}
	_ = p.waitForStart(p.life) // ignore the error, because the plugin's status contains it
}

// killedFromOutside reports whether another program or the kernel killed the process. In this case, the plugin did not
// cause the end.
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

// crashed returns the error for a call whose plugin process ended during the call. The argument "answer" is
// the error of the call. This error contains the tool's error message if the tool was still able to answer.
func (p *Plugin) crashed(call string, in *instance, answer *tool.Error) *tool.Error {
	next, effects := "The plugin is started again", "It is unknown whether this call took effect."
	if in.repeatable(call) {
		effects = "The tool is read-only or idempotent, so the call can be repeated."
	}
	if !p.recovery.breaker.IsClosed() {
		next = fmt.Sprintf("The plugin is suspended, because this happened %d times in a row", p.recovery.restart.MaxFailures)
	}
	if answer.Source != tool.SourcePlugin {
		effects += " The tool still reported: " + answer.Message
	}
	return tool.Errorf(tool.Unavailable, "Plugin %s ended during the call of %s (%s). %s. %s",
		p.spec.Name, call, in.exitText(), next, effects).From(tool.SourcePlugin)
}
