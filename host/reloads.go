package host

import (
	"context"
	"errors"
	"sync"

	"toolhost.dev/host/internal/config"
)

// reloads keeps what reloads know of each other.
type reloads struct {
	one sync.Mutex // held by the one that runs

	mu        sync.Mutex
	closed    bool
	restart   context.CancelCauseFunc // of the attempt under way; nil: there is none
	seen      string                  // what was on disk when the last attempt began
	plugins   map[string]refusal
	config    string         // why the one on disk is not used; empty: it is
	refusedAs *config.Config // which one that was; nil: it could not be read
}

// refusal is why a version of a plugin was not published.
type refusal struct {
	file string // which binary that was
	why  string
}

var (
	errSuperseded = errors.New("it changed again meanwhile")
	errClosing    = errors.New("the host is being closed")
)

func (r *reloads) begin(cancel context.CancelCauseFunc, seen string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restart, r.seen = cancel, seen
	return !r.closed
}

func (r *reloads) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restart = nil
}

// changed takes note of what is on disk now, and calls begin when a reload must begin. One that
// is under way and has seen something else begins anew by itself.
func (r *reloads) changed(now string, begin func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed || r.seen == now:
	case r.restart == nil:
		begin()
	default:
		r.restart(errSuperseded)
	}
}

// close gives up what is under way; nothing is reloaded afterwards.
func (r *reloads) close() {
	r.mu.Lock()
	r.closed = true
	if r.restart != nil {
		r.restart(errClosing)
	}
	r.mu.Unlock()
	r.one.Lock()   // it has ended
	r.one.Unlock() //nolint:staticcheck // only to wait
}

// over reports whether nothing is reloaded any more.
func (r *reloads) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// refusal says why a plugin's version on disk is not the one that serves; empty: it is.
func (r *reloads) refusal(plugin string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugins[plugin].why
}

// configRefusal says why the configuration on disk is not the one in use; empty: it is.
func (r *reloads) configRefusal() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

func (r *reloads) forgive(plugin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.plugins, plugin)
}
