package supervisor

import "sync/atomic"

// leases count who uses something that is to go once nobody does. A lease is one atomic
// addition; none is given after end.
type leases struct {
	n     atomic.Int64
	ended atomic.Bool
	idle  chan struct{} // a token when n falls to 0 after end
}

func newLeases() leases { return leases{idle: make(chan struct{}, 1)} }

// take reports whether a lease was given; release must be called then.
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

// end stops giving leases. It returns a channel that is notified once, when the last lease has been returned.
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
