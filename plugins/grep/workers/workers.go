// Package workers does one thing in several goroutines. A panic in one of them is not the end of the process:
// whoever waits for them gets it.
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

// caught gives the value of a panic as an error.
func caught(p any) *PanicError {
	if e, ok := p.(*PanicError); ok {
		return e
	}
	fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, debug.Stack())
	return &PanicError{p}
}

// spare is how many processors there are beside those of the workers.
var spare int

// Number is how many goroutines do a thing at once: as many as there are processors for them.
func Number() int { return max(1, runtime.GOMAXPROCS(0)-spare) }

// Spare gives the process one processor more than it has workers; it is called once, before there are any. With
// none idle, the runtime takes its processor from whoever it finds in a system call, who must wait for another
// one then. Workers that walk a tree or ask for the times of its files do nothing but short system calls, and
// take a tenth less time when they are left alone. The runtime no longer follows changes of the limits on
// processors then. Where GOMAXPROCS is set, it is left as it is.
func Spare() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	spare = 1
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare)
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
