// Package workers runs functions in several goroutines. A panic in one of these goroutines does not end the process.
// Instead, the caller that waits for the goroutines gets the panic.
package workers

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// PanicError is a recovered panic. Run panics with a PanicError. The stack trace of the original panic is written to
// standard error, which is the plugin's log.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("the search failed because of a bug in the plugin: %v", e.Value)
}

// caught converts the value of a panic to an error and logs the stack trace.
func caught(p any) *PanicError {
	if e, ok := p.(*PanicError); ok {
		return e
	}
	fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, debug.Stack())
	return &PanicError{p}
}

// fixed is the number of workers after Spare has added a processor. Before the call of Spare, it is 0.
var fixed atomic.Int32

// Number returns how many goroutines a concurrent task must start: one for each processor except the processor that
// Spare added.
func Number() int {
	if n := fixed.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Spare increases GOMAXPROCS to one more than the number of workers. Without an idle processor, the Go runtime takes
// the processor from a goroutine during a system call, and the goroutine must then wait for another processor. Workers
// that stat all files of a tree make only short system calls. With an idle processor, they need a tenth less time.
// After Spare, the runtime no longer adapts to changed CPU limits. If GOMAXPROCS is set in the environment, Spare does
// nothing.
var Spare = sync.OnceFunc(addSpare)

func addSpare() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	n := runtime.GOMAXPROCS(0)
	fixed.Store(int32(n)) // #nosec G115 -- a number of processors
	runtime.GOMAXPROCS(n + 1)
}

// Run calls the function "do" n times concurrently, with the numbers from 0 to n-1. It waits for all calls. If a call
// panics, Run panics with a *[PanicError] after all calls have ended.
func Run(n int, do func(worker int)) {
	var wg sync.WaitGroup
	var failed atomic.Pointer[PanicError]
	for w := range n {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					failed.CompareAndSwap(nil, caught(p))
				}
			}()
			do(w)
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		panic(err)
	}
}

// Catch calls the function "do" and returns its error. If do panics, Catch returns a *[PanicError].
func Catch(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught(p)
		}
	}()
	return do()
}
