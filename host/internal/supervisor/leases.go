package supervisor

import "sync/atomic"

// leases counts the users of a resource that is released after its last user. Taking a lease is one atomic addition.
// After end no lease can be taken.
type leases struct {
	n     atomic.Int64
	ended atomic.Bool
	idle  chan struct{} // receives a token when n is 0 after end
}

func newLeases() leases { return leases{idle: make(chan struct{}, 1)} }

// take takes a lease. If it returns true, the caller must call release.
func (l *leases) take() bool {
	l.n.Add(1)
	if l.ended.Load() {
		l.release()
		return false
	}
	return true
}

func (l *leases) release() {
	if l.n.Add(-1) == 0 && l.ended.Load() {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// end prevents new leases. It returns a channel that receives one value after the last lease is released.
func (l *leases) end() <-chan struct{} {
	l.ended.Store(true)
	if l.n.Load() == 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
	return l.idle
}
