// Command toolhost gives an LLM agent its tools: it loads each from a plugin binary and
// runs what one command string means.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
)

// Exit statuses; a native command's own status goes through as it is.
const (
	exitOK      = 0
	exitFailure = 1 // a tool failed
	exitUsage   = 2 // the command line or the configuration is wrong
)

// exitError ends the program with a status; its message was already printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// hangup is what becomes of SIGHUP: it ends the program, or whatever onHangup set.
var hangup atomic.Pointer[func()]

// onHangup has SIGHUP call f from now on.
func onHangup(f func()) { hangup.Store(&f) }

func withHangup(ctx context.Context) context.Context {
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

func main() {
	delayCollection()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx = withHangup(ctx)
	err := newRoot().ExecuteContext(ctx)
	stop()
	var code exitError
	switch {
	case err == nil:
		os.Exit(exitOK)
	case errors.As(err, &code):
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "toolhost:", clean(err.Error()))
	os.Exit(exitUsage)
}

// delayCollection has the first collection of garbage wait until the heap has grown to
// 10 MB, more than twice what is usual. What runs one command ends before; the collections of its
// start would be a fifth of its time.
func delayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(250)
	runtime.AddCleanup(new([64]byte), func(int) { debug.SetGCPercent(100) }, 0)
}
