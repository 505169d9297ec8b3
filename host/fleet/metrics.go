package fleet

import (
	"sync/atomic"
	"time"

	"toolhost.dev/host"
)

// metrics counts what happens between nodes.
type metrics struct {
	forwards  atomic.Uint64
	notOwner  atomic.Uint64
	takeovers atomic.Uint64
	unknown   atomic.Uint64
	forward   histogram
	journal   histogram
}

// histogram counts durations.
type histogram struct {
	count, nanoseconds atomic.Uint64
	buckets            [len(bounds)]atomic.Uint64
}

// bounds are the upper bounds of the buckets, in seconds.
var bounds = [...]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

func (h *histogram) observe(d time.Duration) {
	h.count.Add(1)
	h.nanoseconds.Add(uint64(max(d, 0)))
	for i, b := range bounds {
		if d.Seconds() <= b {
			h.buckets[i].Add(1)
		}
	}
}

func (h *histogram) times() host.Times {
	out := host.Times{
		Count: h.count.Load(), Sum: float64(h.nanoseconds.Load()) / 1e6, Buckets: make(map[float64]uint64, len(bounds)),
	}
	for i, b := range bounds {
		out.Buckets[b] = h.buckets[i].Load()
	}
	return out
}

func (m *metrics) forwarded(d time.Duration) {
	m.forwards.Add(1)
	m.forward.observe(d)
}

func (m *metrics) appended(d time.Duration) { m.journal.observe(d) }

// Stats implements [host.Fleet].
func (f *Fleet) Stats() host.FleetStats {
	m := &f.metrics
	left, _ := f.lease.Valid()
	out := host.FleetStats{
		Forwarded: m.forwards.Load(), NotOwner: m.notOwner.Load(), Takeovers: m.takeovers.Load(),
		Unknown: m.unknown.Load(),
		Forward: m.forward.times(), Journal: m.journal.times(), Lease: left.Seconds(), Nodes: make(map[string]int),
	}
	f.mu.Lock()
	out.Sessions = len(f.owned)
	f.mu.Unlock()
	for _, p := range f.lease.Peers() {
		state := p.State
		if p.Fenced {
			state = "dead"
		}
		out.Nodes[state]++
	}
	return out
}
