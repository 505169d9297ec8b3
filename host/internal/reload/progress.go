package reload

import (
	"context"
	"errors"
	"sync"

	"toolhost.dev/host/internal/config"
)

// progress is what reloads know about each other.
type progress struct {
	one sync.Mutex // held by the reload or the override that is running

	mu        sync.Mutex
	closed    bool
	restart   context.CancelCauseFunc // of the attempt that is under way, or nil
	seen      string                  // the state of the disk when the last attempt began
	plugins   map[string]refusal
	config    string         // why the configuration on disk is not used, or ""
	refusedAs *config.Config // that configuration, or nil if it could not be read
}

// refusal says why a version of a plugin was not published.
type refusal struct {
	file string // identifies its binary
	why  string
}

var (
	errSuperseded = errors.New("the files changed again meanwhile")
	errClosing    = errors.New("the host is being closed")
)

// begin registers an attempt. It reports whether one may begin.
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

// changed handles a change of the disk. It calls begin if a reload must begin. An attempt that is under way and has read
// another state is cancelled, so that it begins again.
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

// close cancels the attempt that is under way and waits for its end. No attempt begins afterwards.
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

// isClosed reports whether no reload may begin any more.
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

// forgive forgets that a plugin's version was refused.
func (p *progress) forgive(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plugins, plugin)
}

// refuse remembers that a plugin's version was refused.
func (p *progress) refuse(plugin string, r refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plugins == nil {
		p.plugins = make(map[string]refusal)
	}
	p.plugins[plugin] = r
}

// refusedFile returns the identity of the plugin's binary that was refused, if one was.
func (p *progress) refusedFile(plugin string) (file string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.plugins[plugin]
	return r.file, ok
}

// refuseConfig remembers why a configuration is refused. cfg is nil if it could not be read. It reports whether the reason is
// new.
func (p *progress) refuseConfig(cfg *config.Config, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := p.config != why
	p.config, p.refusedAs = why, cfg
	return isNew
}

// acceptConfig forgets why a configuration was refused.
func (p *progress) acceptConfig() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config, p.refusedAs = "", nil
}

// wasRefused reports whether the same configuration is refused already.
func (p *progress) wasRefused(cfg *config.Config) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config != "" && p.refusedAs != nil && p.refusedAs.Same(cfg)
}
