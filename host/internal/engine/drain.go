package engine

import (
	"context"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/dispatch"
)

// CodeShutdown is the code of the error for calls that arrive while the host shuts down.
const CodeShutdown = 503

// ErrStopped is the cause of contexts that end because the host is stopped. See host.ErrStopped.
var ErrStopped = dispatch.ErrStopped

// retryShutdown is the time after which a refused caller can try again. Another host usually runs by then.
const retryShutdown = time.Second

// running counts the calls that have not ended.
type running struct {
	mu       sync.Mutex
	calls    int
	refusing bool
	last     time.Time     // when the last call began or ended
	changed  chan struct{} // closed when calls becomes 0; nil if nobody waits
}

// enter counts a call until done is called. It returns an error if the host shuts down.
func (r *running) enter() (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, tool.Errorf(tool.Unavailable, "The host is shutting down and takes no more calls. Try again in a second.").WithCode(CodeShutdown).WithRetryAfter(retryShutdown)
	}
	r.calls++
	r.last = time.Now()
	return r.leave, nil
}

func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	r.last = time.Now()
	if r.calls == 0 && r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// wait returns when no call runs and none began or ended for the duration quiet, or when ctx ends.
func (r *running) wait(ctx context.Context, quiet time.Duration) {
	for {
		r.mu.Lock()
		left := quiet - time.Since(r.last)
		if r.calls == 0 && left <= 0 {
			r.mu.Unlock()
			return
		}
		var idle chan struct{}
		if r.calls > 0 {
			if r.changed == nil {
				r.changed = make(chan struct{})
			}
			idle, left = r.changed, time.Hour
		}
		r.mu.Unlock()
		select {
		case <-idle:
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

// Ready returns an error if the host takes no more calls.
func (e *Engine) Ready() error {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	if e.running.refusing {
		return tool.Errorf(tool.Unavailable, "the host is shutting down")
	}
	return nil
}

// Drain refuses new calls and waits for the running ones, at most for the configured shutdown_timeout.
func (e *Engine) Drain(ctx context.Context) {
	e.running.mu.Lock()
	e.running.refusing = true
	e.running.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.Current().Config.Host.ShutdownTimeout)
	defer cancel()
	e.running.wait(ctx, 0)
}

// successorQuiet is the time without calls after which a host whose socket has a successor ends. Clients with an open
// connection have noticed by then that the server closes it.
const successorQuiet = time.Second

// Yield waits until no calls arrive any more, because another host accepts the connections now. It waits at most for the
// configured shutdown_timeout. Calls are not refused meanwhile.
func (e *Engine) Yield(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.Current().Config.Host.ShutdownTimeout)
	defer cancel()
	e.running.mu.Lock()
	e.running.last = time.Now()
	e.running.mu.Unlock()
	e.running.wait(ctx, successorQuiet)
}

// Share makes every change of a session visible to other hosts before the call is answered. It must be called before
// another host serves the calls of this one.
func (e *Engine) Share() error {
	e.state.WriteThrough()
	return e.state.Flush()
}
