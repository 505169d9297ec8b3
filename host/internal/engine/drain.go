package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"toolhost.dev/host/internal/stage"

	"toolhost.dev/sdk/tool"
)

// These are the reasons for which a host refuses requests. Servers answer them with a status of their own.
const (
	ReasonWorkspace = "workspace" // the principal is not allowed to use the workspace
	ReasonShutdown  = "shutdown"  // the host shuts down
	ReasonRequest   = "request"   // the text is not a valid request, so no call was made of it
)

// because adds a reason to the data of an error.
func because(reason string, e *tool.Error) *tool.Error {
	e.Data = fmt.Appendf(nil, `{"reason":%q}`, reason)
	return e
}

// Reason returns the reason for which a host refused a request, or "".
func Reason(e *tool.Error) string {
	var data struct{ Reason string }
	if e == nil || e.Source != tool.SourceHost || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	return data.Reason
}

// ErrStopped is the cause of contexts that end because the host is stopped. See host.ErrStopped.
var ErrStopped = stage.ErrStopped

// retryShutdown is the time after which a refused caller can try again. By then, another host usually runs.
const retryShutdown = time.Second

// asking is the time in which people are asked.
type asking struct {
	until context.Context
	end   context.CancelCauseFunc
}

func newAsking() (a asking) {
	a.until, a.end = context.WithCancelCause(context.Background())
	return a
}

// running counts the calls that have not ended.
type running struct {
	mu       sync.Mutex
	calls    int
	refusing bool
	last     time.Time     // time when the last call began or ended
	changed  chan struct{} // closed when the number of calls becomes 0; nil if no goroutine waits
}

// enter counts a call until the caller calls done. It returns an error if the host shuts down.
func (r *running) enter() (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, because(ReasonShutdown, tool.Errorf(tool.Unavailable, "The host is shutting down and takes no more calls. Try again in a second.").WithRetryAfter(retryShutdown))
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

// wait returns when no call runs and no call began or ended for the duration of the argument "quiet". It
// also returns when ctx ends.
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

// Ready returns an error if the host accepts no more calls.
func (e *Engine) Ready() error {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	if e.running.refusing {
		return tool.Errorf(tool.Unavailable, "the host is shutting down")
	}
	return nil
}

// Drain refuses new calls and waits for the running calls, at most for the configured shutdown_timeout. It ends the
// asks that wait for a person.
func (e *Engine) Drain(ctx context.Context) {
	e.running.mu.Lock()
	e.running.refusing = true
	e.running.mu.Unlock()
	e.asking.end(ErrStopped)
	ctx, cancel := context.WithTimeout(ctx, e.Current().Config.Host.ShutdownTimeout)
	defer cancel()
	e.running.wait(ctx, 0)
}

// If another host has acquired a host's socket, the host exits after successorQuiet without calls. By then, clients
// with an open connection know that the server closes the connection.
const successorQuiet = time.Second

// Yield waits until no more calls arrive. It is called after another host has accepted the connections. Yield waits at
// most for the configured shutdown_timeout and does not refuse calls meanwhile.
func (e *Engine) Yield(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.Current().Config.Host.ShutdownTimeout)
	defer cancel()
	e.running.mu.Lock()
	e.running.last = time.Now()
	e.running.mu.Unlock()
	e.running.wait(ctx, successorQuiet)
}

// Share makes each later change of a session visible to other hosts before its call returns. It must be called before
// another host serves the calls of this host.
func (e *Engine) Share() error {
	e.state.WriteThrough()
	return e.state.Flush()
}
