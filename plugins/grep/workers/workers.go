// Package workers implements work in several goroutines. A panic in one of them does not end the
// process: the caller that waits for them gets it as an error.
package workers

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// PanicError is a recovered panic. Run panics with it. The stack trace is written to standard error, which is the
// plugin's log.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("the search failed because of a bug in the plugin: %v", e.Value)
}

// caught converts the value of a panic to an error and logs the stack.
func caught(p any) *PanicError {
	if e, ok := p.(*PanicError); ok {
		return e
	}
	fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, debug.Stack())
	return &PanicError{p}
}

// fixed is the number of workers after Spare has added a processor, or 0 before.
var fixed atomic.Int32

// Number returns the number of goroutines to start for a concurrent task: one for each processor.
func Number() int {
	if n := fixed.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Spare gives the process one processor (GOMAXPROCS) more than it has workers. Without an idle processor, the runtime
// takes one from a goroutine in a system call, which must then wait for another. Workers that stat all files of a tree
// only make short system calls. With a spare processor they take a tenth less time. The runtime then no longer follows
// changes of CPU limits. Spare does nothing if GOMAXPROCS is set in the environment.
var Spare = sync.OnceFunc(addSpare)

func addSpare() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	n := runtime.GOMAXPROCS(0)
	fixed.Store(int32(n)) // #nosec G115 -- a number of processors
	runtime.GOMAXPROCS(n + 1)
}

// Run calls do n times concurrently, with the numbers from 0 on, and waits for all calls. If a call panics, Run panics
// with a *[PanicError] after all have ended.
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

// Catch calls do. It returns a panic of do as a *[PanicError].
func Catch(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught(p)
		}
	}()
	return do()
}
