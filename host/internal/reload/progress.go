package reload

import (
	"context"
	"errors"
	"sync"
	"time"

	"toolhost.dev/host/internal/config"
)

// progress is the common state of all reloads of a host.
type progress struct {
	one sync.Mutex // a running reload or override holds this lock

	mu        sync.Mutex
	closed    bool
	restart   context.CancelCauseFunc // cancels the running attempt; nil if no attempt runs
	seen      string                  // state of the files when the last attempt that reads them started
	partial   bool                    // whether the running attempt reads only the binaries of named plugins
	later     func()                  // begins the reload for a change that the running attempt may not have read; nil without such a change
	plugins   map[string]refusal
	config    string         // reason why the configuration on disk was rejected, or ""
	refusedAs *config.Config // the rejected configuration, or nil if it could not be read
	last      LastReload
}

// LastReload describes the reloads of a host since its start. It counts requested reloads, and those automatic reloads
// that changed or refused something.
type LastReload struct {
	// At is the time of the last reload. It is zero before the first reload.
	At time.Time `json:"at,omitzero"`
	// OK reports whether the last reload refused nothing.
	OK bool `json:"ok"`
	// Applied and Refused count the reloads by their outcome.
	Applied int64 `json:"applied"`
	Refused int64 `json:"refused"`
}

// reloaded counts a reload.
func (p *progress) reloaded(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.At, p.last.OK = time.Now(), ok
	if ok {
		p.last.Applied++
	} else {
		p.last.Refused++
	}
}

// LastReload returns the outcome of the last reload.
func (r *Reloader) LastReload() LastReload {
	r.progress.mu.Lock()
	defer r.progress.mu.Unlock()
	return r.progress.last
}

// refusal records the rejection of a plugin version and its reason.
type refusal struct {
	file string // identity of the binary
	why  string
}

var (
	errSuperseded = errors.New("the files changed again during the reload")
	errClosing    = errors.New("the host is being closed")
)

// begin registers an attempt. A partial attempt does not read the configuration. The method returns false if
// the host is closing.
func (p *progress) begin(cancel context.CancelCauseFunc, seen string, partial bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart, p.partial = cancel, partial
	if !partial {
		p.seen, p.later = seen, nil
	}
	return !p.closed
}

// end must be called at the end of an attempt.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart, p.partial = nil, false
}

// finish must be called after the last attempt of a reload. If no attempt has read a change, the method
// begins a reload for this change. This happens if the change came while the attempt already published, or if the
// attempt was partial.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later != nil && !p.closed {
		p.later()
	}
	p.later = nil
}

// changed must be called after a change of the files. If no attempt is running, it calls the function
// "begin". If a running attempt read older files, it restarts this attempt. If this attempt can no longer be restarted,
// begin is called after it.
func (p *progress) changed(now string, begin func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || p.seen == now:
	case p.restart == nil:
		begin()
	default:
		p.later = begin
		if !p.partial {
			p.restart(errSuperseded)
		}
	}
}

// close cancels the running attempt and waits until it ends. Later attempts cannot start.
func (p *progress) close() {
	p.mu.Lock()
	p.closed = true
	if p.restart != nil {
		p.restart(errClosing)
	}
	p.mu.Unlock()
	p.one.Lock()
	p.one.Unlock() //nolint:staticcheck // only waits
}

// isClosed reports whether close was called. After close, no reload can start.
func (p *progress) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *progress) refusal(plugin string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plugins[plugin].why
}

func (p *progress) configRefusal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config
}

// forgive deletes the recorded rejection of a plugin's version.
func (p *progress) forgive(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plugins, plugin)
}

// refuse records the rejection of a plugin's version.
func (p *progress) refuse(plugin string, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plugins == nil {
		p.plugins = make(map[string]refusal)
	}
	p.plugins[plugin] = r
}

// refusedFile returns the identity of a plugin's rejected binary. The result "ok" is false if the last binary was not
// rejected.
func (p *progress) refusedFile(plugin string) (file string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.plugins[plugin]
	return r.file, ok
}

// refuseConfig records the rejection of a configuration and its reason. A nil cfg means that the configuration is
// unreadable. refuseConfig returns true if the reason is new.
func (p *progress) refuseConfig(cfg *config.Config, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := p.config != why
	p.config, p.refusedAs = why, cfg
	return isNew
}

// acceptConfig deletes the recorded rejection of a configuration.
func (p *progress) acceptConfig() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.refusedAs = "", nil
}

// wasRefused reports whether the host rejected an equal configuration earlier.
func (p *progress) wasRefused(cfg *config.Config) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config != "" && p.refusedAs != nil && p.refusedAs.Same(cfg)
}
