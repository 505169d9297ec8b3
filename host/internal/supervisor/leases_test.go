package supervisor

import (
	"sync"
	"testing"
)

func TestLeases(t *testing.T) {
	l := newLeases()
	for range 2 {
		if !l.take() {
			t.Fatal("no lease is given")
		}
	}
	idle := l.end()
	if l.take() {
		t.Error("a lease is given after the end")
	}
	l.release()
	select {
	case <-idle:
		t.Error("one lease is left")
	default:
	}
	l.release()
	<-idle
	if n := l.n.Load(); n != 0 {
		t.Errorf("%d leases", n)
	}
	none := newLeases()
	<-none.end() // must not block, because no lease exists
}

func TestLeasesAtOnce(t *testing.T) {
	for range 200 {
		l := newLeases()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for l.take() {
					l.release()
				}
			})
		}
		<-l.end()
		wg.Wait()
	}
}
