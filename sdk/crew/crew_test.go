package crew_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/sdk/crew"
)

// TestCrew checks that each function runs exactly once, that all functions run concurrently if they wait for each
// other, and that no goroutine remains.
func TestCrew(t *testing.T) {
	before := runtime.NumGoroutine()
	var c crew.Crew
	var ran atomic.Int64
	for range 20 {
		var all sync.WaitGroup
		together := make(chan struct{})
		const n = 100 // more goroutines than the crew keeps
		all.Add(n)
		for i := range n {
			c.Go(func() {
				defer all.Done()
				if i == n-1 {
					close(together)
				}
				<-together
				ran.Add(1)
			})
		}
		all.Wait()
	}
	if ran.Load() != 2000 {
		t.Errorf("%d functions ran", ran.Load())
	}
	kept := 0
	for range 1000 {
		if kept = runtime.NumGoroutine() - before; kept <= 32 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if kept < 1 || kept > 32 {
		t.Errorf("the crew keeps %d goroutines", kept)
	}
	c.Dismiss()
	done := make(chan struct{})
	c.Go(func() { close(done) }) // a dismissed crew still runs functions
	<-done
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines remain", runtime.NumGoroutine()-before)
}
