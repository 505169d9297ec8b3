package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Exit statuses. The status of a native command is passed on unchanged.
const (
	ExitOK      = 0
	ExitFailure = 1 // a tool failed
	ExitUsage   = 2 // the command line or the configuration is wrong
)

// ExitError ends the program with a status. Its message was printed already.
type ExitError int

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// hangup is called for SIGHUP.
var hangup atomic.Pointer[func()]

// onHangup makes SIGHUP call f.
func onHangup(f func()) { hangup.Store(&f) }

// WithHangup returns a context that SIGHUP cancels, until a live host is opened.
func WithHangup(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	onHangup(cancel)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			(*hangup.Load())()
		}
	}()
	return ctx
}
