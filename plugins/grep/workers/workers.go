// Package workers does one thing in several goroutines. A panic in one of them is not the end of the process:
// whoever waits for them gets it.
package workers

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// PanicError is a panic that was caught. It is an error, and what Run panics with.
type PanicError struct {
	Value any
	Stack []byte // where it came about
}

// Error implements error.
func (f *PanicError) Error() string {
	return fmt.Sprintf("this is a defect of the plugin: %v", f.Value)
}

// caught gives the value of a panic as an error.
func caught(p any) *PanicError {
	if f, ok := p.(*PanicError); ok {
		return f
	}
	return &PanicError{p, debug.Stack()}
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
	if f := failed.Load(); f != nil {
		panic(f)
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
