package hop

import (
	"sync"
	"time"
)

// Holds are the calls whose callers can lose their connection and come back. It is safe for concurrent use.
type Holds struct {
	mu      sync.Mutex
	calls   map[string]*held
	closed  bool
	running sync.WaitGroup
}

// held is a call of a caller that can come back.
type held struct {
	caller      *Caller
	connections int         // that use the call. During a reconnection, the old one and the new one use it.
	late        *time.Timer // ends the call if the caller does not come back; nil while there is a connection
}

const (
	// Patience is how long a caller tries to come back.
	Patience = 2 * time.Minute
	// holdsAfter is how long a call without a connection is held: a little longer than its caller tries.
	holdsAfter = Patience + 30*time.Second
)

// NewHolds returns a set without calls.
func NewHolds() *Holds { return &Holds{calls: make(map[string]*held)} }

// Find returns the call of a gateway with the given hold, for a new connection of the gateway. It returns nil for an
// unknown call. After the connection, [Holds.Lost] or [Holds.Drop] must be called.
func (h *Holds) Find(gateway, hold string) *Caller {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(gateway + " " + hold)
}

func (h *Holds) find(key string) *Caller {
	found := h.calls[key]
	if found == nil {
		return nil
	}
	found.connections++
	found.stop()
	return found.caller
}

func (h *held) stop() {
	if h.late != nil {
		h.late.Stop()
		h.late = nil
	}
}

// Add adds a call and runs it in a new goroutine. Otherwise it is like [Holds.Find]: if the gateway sent the call
// before, Add returns the known call and does not run the new one. After [Holds.Close], Add returns nil.
func (h *Holds) Add(gateway, hold string, c *Caller, run func()) *Caller {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	key := gateway + " " + hold
	if known := h.find(key); known != nil {
		return known
	}
	h.calls[key] = &held{caller: c, connections: 1}
	h.running.Go(run)
	return c
}

// Lost ends the use of a call by a connection. After the last one, the caller must come back in time.
func (h *Holds) Lost(gateway, hold string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.calls[gateway+" "+hold]
	if found == nil {
		return
	}
	if found.connections--; found.connections == 0 {
		found.late = time.AfterFunc(holdsAfter, func() { h.Drop(gateway, hold) })
	}
}

// Drop forgets a call, and cancels it if it still runs.
func (h *Holds) Drop(gateway, hold string) {
	h.mu.Lock()
	found := h.calls[gateway+" "+hold]
	delete(h.calls, gateway+" "+hold)
	h.mu.Unlock()
	if found != nil {
		found.stop()
		found.caller.Leave()
	}
}

// Close cancels all calls, and waits until they have ended, but at most for the time in patience.
func (h *Holds) Close(patience time.Duration) {
	h.mu.Lock()
	all := h.calls
	h.calls, h.closed = make(map[string]*held), true
	h.mu.Unlock()
	for _, found := range all {
		found.stop()
		found.caller.Leave()
	}
	ended := make(chan struct{})
	go func() {
		h.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}
