// Package process contains what the commands share with their process: exit statuses and signals.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/host"
)

// These are the exit statuses of the program. If a native command fails, the exit status is the status of the command.
const (
	ExitOK      = 0
	ExitFailure = 1 // a tool failed
	ExitUsage   = 2 // the command line or the configuration is invalid
)

// ExitError ends the program with the given status. The caller must print the error message itself.
type ExitError int

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitStatus returns the exit status for a result, as an error. For a native command, this is the exit status from the
// shell.
func ExitStatus(res *host.Result) error {
	switch {
	case res.Success():
		return nil
	case res.Run.Tool == "bash" && res.Error.Code > 0 && res.Error.Code < 256:
		return ExitError(res.Error.Code)
	}
	return ExitError(ExitFailure)
}

// hangup points to the function that handles SIGHUP.
var hangup atomic.Pointer[func()]

// OnHangup sets the function that handles SIGHUP.
func OnHangup(f func()) { hangup.Store(&f) }

// WithHangup returns a context that SIGHUP cancels. After [OnHangup], SIGHUP triggers a reload and no longer
// cancels the context.
func WithHangup(ctx context.Context) context.Context {
	return withSignal(ctx, syscall.SIGHUP, &hangup)
}

// interrupted points to the function that handles SIGINT.
var interrupted atomic.Pointer[func()]

// OnInterrupt sets the function that handles SIGINT.
func OnInterrupt(f func()) { interrupted.Store(&f) }

// WithInterrupt returns a context that SIGINT cancels, unless [OnInterrupt] sets another function.
func WithInterrupt(ctx context.Context) context.Context {
	return withSignal(ctx, os.Interrupt, &interrupted)
}

// withSignal returns a context and stores in handler the function that cancels the context. When a signal arrives, the
// function that is then stored in handler is called.
func withSignal(ctx context.Context, s os.Signal, handler *atomic.Pointer[func()]) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	f := func() { cancel() }
	handler.Store(&f)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, s)
	go func() {
		for range signals {
			(*handler.Load())()
		}
	}()
	return ctx
}

// terminated points to the channel that the next SIGTERM closes. If it is nil, SIGTERM cancels the context.
var terminated atomic.Pointer[chan struct{}]

// Terminated returns a channel that the next SIGTERM closes. A second SIGTERM cancels the context of the command. If
// Terminated is not called, the first SIGTERM cancels this context.
func Terminated() <-chan struct{} {
	c := make(chan struct{})
	terminated.Store(&c)
	return c
}

// WithTermination returns a context that SIGTERM cancels. If [Terminated] was called, only the second SIGTERM cancels
// the context.
func WithTermination(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			if c := terminated.Swap(nil); c != nil {
				close(*c)
				continue
			}
			cancel(host.ErrStopped)
		}
	}()
	return ctx
}

// WhenUnread waits until all readers of a pipe or a socket have closed it, and then calls f. For other files, it returns
// at once.
func WhenUnread(file *os.File, f func()) {
	if st, err := file.Stat(); err != nil || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	for {
		// If no events are requested, poll reports only errors and that the other side was closed.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(file.Fd())}}, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n > 0 && err == nil {
			f()
		}
		return
	}
}
