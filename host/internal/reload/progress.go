package reload

import (
	"context"
	"errors"
	"sync"

	"toolhost.dev/host/internal/config"
)

// progress is the state that all reloads of a host share.
type progress struct {
	one sync.Mutex // held by the running reload or override

	mu        sync.Mutex
	closed    bool
	restart   context.CancelCauseFunc // cancels the running attempt; nil if no attempt is running
	seen      string                  // the state of the files at the start of the last attempt
	plugins   map[string]refusal
	config    string         // why the configuration on disk was rejected, or ""
	refusedAs *config.Config // the rejected configuration, or nil if it was unreadable
}

// refusal records why a plugin version was rejected.
type refusal struct {
	file string // identity of the binary
	why  string
}

var (
	errSuperseded = errors.New("the files changed again during the reload")
	errClosing    = errors.New("the host is being closed")
)

// begin registers an attempt. It returns false if the host is closing.
func (p *progress) begin(cancel context.CancelCauseFunc, seen string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart, p.seen = cancel, seen
	return !p.closed
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart = nil
}

// changed handles changed files. It calls begin if no attempt is running. It restarts a running attempt that read an
// older state of the files.
func (p *progress) changed(now string, begin func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || p.seen == now:
	case p.restart == nil:
		begin()
	default:
		p.restart(errSuperseded)
	}
}

// close cancels the running attempt and waits for its end. No attempt can start afterwards.
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

// isClosed reports whether close was called, so that no reload can start.
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

// forgive deletes the recorded refusal of a plugin.
func (p *progress) forgive(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plugins, plugin)
}

// refuse records that a plugin's version was rejected.
func (p *progress) refuse(plugin string, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plugins == nil {
		p.plugins = make(map[string]refusal)
	}
	p.plugins[plugin] = r
}

// refusedFile returns the identity of the plugin's rejected binary. ok is false if no binary was rejected.
func (p *progress) refusedFile(plugin string) (file string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.plugins[plugin]
	return r.file, ok
}

// refuseConfig records why a configuration was rejected. cfg is nil if the configuration was unreadable. refuseConfig
// returns true if the reason is new.
func (p *progress) refuseConfig(cfg *config.Config, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := p.config != why
	p.config, p.refusedAs = why, cfg
	return isNew
}

// acceptConfig deletes the recorded refusal of a configuration.
func (p *progress) acceptConfig() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.refusedAs = "", nil
}

// wasRefused reports whether an equal configuration was already rejected.
func (p *progress) wasRefused(cfg *config.Config) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config != "" && p.refusedAs != nil && p.refusedAs.Same(cfg)
}
