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

// PanicError is a panic that was caught. It is what Run panics with. Where it came about is written to
// standard error, which is the plugin's log.
type PanicError struct{ Value any }

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("this is a defect of the plugin: %v", e.Value)
}

// caught returns the value of a panic as an error.
func caught(p any) *PanicError {
	if e, ok := p.(*PanicError); ok {
		return e
	}
	fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, debug.Stack())
	return &PanicError{p}
}

// fixed is how many workers there are since there is a processor to spare; 0: there is none.
var fixed atomic.Int32

// Number is how many goroutines do a thing at once: as many as there are processors for them.
func Number() int {
	if n := fixed.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Spare gives the process one processor more than it has workers. With none idle, the runtime takes its processor
// from whoever it finds in a system call, who must wait for another one then. Workers that ask for the times of
// all files of a tree do nothing but short system calls, and take a tenth less time when they are left alone. The
// runtime no longer follows changes of the limits on processors then. Where GOMAXPROCS is set, it is left as it is.
var Spare = sync.OnceFunc(addSpare)

func addSpare() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	n := runtime.GOMAXPROCS(0)
	fixed.Store(int32(n)) // #nosec G115 -- a number of processors
	runtime.GOMAXPROCS(n + 1)
}

// Run calls do n times at once, with the numbers from 0 on, and waits for all of them. If one panics, Run
// panics with a *[PanicError], when all have ended.
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

// Catch calls do. A panic in it is its error, a *[PanicError].
func Catch(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught(p)
		}
	}()
	return do()
}
