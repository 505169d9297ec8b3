package hop

import (
	"sync"
	"time"
)

// Holds are the calls whose callers can lose their connection and come back. It is safe for concurrent use.
type Holds struct {
	mu    sync.Mutex
	calls map[string]*held
}

// held is a call of a caller that can come back.
type held struct {
	caller *Caller
	late   *time.Timer // ends the call if the caller does not come back; nil while the caller is connected
}

// Patience is how long a caller tries to come back. A call is held a little longer.
const (
	Patience   = 2 * time.Minute
	holdsAfter = Patience + 30*time.Second
)

// NewHolds returns a set without calls.
func NewHolds() *Holds { return &Holds{calls: make(map[string]*held)} }

// Find returns the call of a gateway with the given hold, or nil. It counts as connected until [Holds.Lost].
func (h *Holds) Find(gateway, hold string) *Caller {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.calls[gateway+" "+hold]
	if found == nil {
		return nil
	}
	found.connected()
	return found.caller
}

func (h *held) connected() {
	if h.late != nil {
		h.late.Stop()
		h.late = nil
	}
}

// Add adds a call.
func (h *Holds) Add(gateway, hold string, c *Caller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[gateway+" "+hold] = &held{caller: c}
}

// Lost begins the time in which the caller must come back. A caller that came back before stays.
func (h *Holds) Lost(gateway, hold string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.calls[gateway+" "+hold]
	if found == nil || found.caller.connected() {
		return
	}
	found.connected()
	found.late = time.AfterFunc(holdsAfter, func() { h.Drop(gateway, hold) })
}

// Drop forgets a call, and cancels it if it still runs.
func (h *Holds) Drop(gateway, hold string) {
	h.mu.Lock()
	found := h.calls[gateway+" "+hold]
	delete(h.calls, gateway+" "+hold)
	h.mu.Unlock()
	if found != nil {
		found.connected()
		found.caller.Leave()
	}
}

// Close cancels all calls.
func (h *Holds) Close() {
	h.mu.Lock()
	all := h.calls
	h.calls = make(map[string]*held)
	h.mu.Unlock()
	for _, found := range all {
		found.connected()
		found.caller.Leave()
	}
}
