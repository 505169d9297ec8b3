package process

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"toolhost.dev/host"
)

// Signals passes signals of the process to a command. A nil *Signals passes none. At first, each signal cancels the
// context that [Notify] returned.
type Signals struct {
	hangup, interrupt atomic.Pointer[func()] // SIGHUP and SIGINT call these functions
	// The next SIGTERM closes this channel. If it is nil, SIGTERM cancels the context.
	terminated atomic.Pointer[chan struct{}]
}

// Notify returns a context that SIGINT, SIGHUP and SIGTERM cancel, and the signals of the process. The signals are
// caught until the process ends, so only the main function of a program may call Notify.
func Notify(ctx context.Context) (context.Context, *Signals) {
	s := new(Signals)
	ctx = withSignal(ctx, os.Interrupt, &s.interrupt)
	ctx = withSignal(ctx, syscall.SIGHUP, &s.hangup)
	return s.withTermination(ctx), s
}

// OnHangup sets the function that SIGHUP calls. SIGHUP then no longer cancels the context.
func (s *Signals) OnHangup(f func()) {
	if s != nil {
		s.hangup.Store(&f)
	}
}

// OnInterrupt sets the function that SIGINT calls. SIGINT then no longer cancels the context.
func (s *Signals) OnInterrupt(f func()) {
	if s != nil {
		s.interrupt.Store(&f)
	}
}

// Terminated returns a channel that the next SIGTERM closes. A second SIGTERM cancels the context of the command. If
// Terminated is not called, the first SIGTERM cancels this context.
func (s *Signals) Terminated() <-chan struct{} {
	if s == nil {
		return nil
	}
	c := make(chan struct{})
	s.terminated.Store(&c)
	return c
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

// withTermination returns a context that SIGTERM cancels. If [Signals.Terminated] was called, only the second SIGTERM
// cancels the context.
func (s *Signals) withTermination(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			if c := s.terminated.Swap(nil); c != nil {
				close(*c)
				continue
			}
			cancel(host.ErrStopped)
		}
	}()
	return ctx
}
