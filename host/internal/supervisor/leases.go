package supervisor

import "sync/atomic"

// The type "leases" counts the users of a resource. The resource is released after its last user. A lease costs one
// atomic addition. After a call of the method "end", no more leases are available.
type leases struct {
	n     atomic.Int64
	ended atomic.Bool
	idle  chan struct{} // receives a value when n becomes 0 after a call of the method "end"
}

func newLeases() leases { return leases{idle: make(chan struct{}, 1)} }

// The method "take" leases the resource. If it returns true, the caller must call release.
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

// The method "end" prevents new leases. It returns a channel that receives one value after the last lease is released.
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
