package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"
)

// Set maps configured names to the plugins for new calls. A Set never changes.
type Set map[string]*Plugin

// Reserve leases a plugin to one call. Each owner has processes of its own, which use the owner's state directory. An
// empty owner means the local user. Reserve returns nil if the plugin is retired because a newer set replaced this set.
func (s Set) Reserve(name, owner string) *Lease {
	p := s[name]
	if p != nil && !p.users.take() {
		return nil
	}
	return &Lease{name: name, owner: owner, plugin: p}
}

// Lease permits one call to use a plugin; see [Set.Reserve].
type Lease struct {
	name   string
	owner  string
	plugin *Plugin // nil if the name is unknown
}

// Release returns the lease. It must be called exactly once.
func (l *Lease) Release() {
	if l.plugin != nil {
		l.plugin.users.release()
	}
}

// Version identifies the plugin. It changes with the plugin's binary and launch settings.
func (l *Lease) Version() any { return l.plugin }

// Call calls a tool of the plugin. It starts the plugin if necessary.
func (l *Lease) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	if l.plugin == nil {
		return tool.Failed(tool.Errorf(tool.Internal, "no plugin is named %q", l.name).From(tool.SourceHost))
	}
	p, done := l.plugin.within(l.owner, call.Roots)
	defer done()
	switch s := p.poisons.of(call); {
	case s.n >= maxStrikes:
		return tool.Failed(p.refused(call.Tool, s))
	case s.n > 0 && s.repeatable:
		alone, left, err := p.isolated(ctx)
		if err != nil {
			return tool.Failed(tool.AsError(err).From(tool.SourceHost))
		}
		res, in := alone.call(ctx, call, peer, p)
		left(in == nil || in.dead())
		return res
	}
	res, in := p.call(ctx, call, peer, p)
	if in != nil && in.mayHaveChanged() && p == l.plugin { // ignore processes for other roots, because their tools can differ
		go p.rediscover(in)
	}
	return res
}

// Hook calls the hook of the plugin. It starts the plugin if necessary.
func (l *Lease) Hook(ctx context.Context, input *tool.HookInput) (*tool.HookAnswer, error) {
	if l.plugin == nil {
		return nil, fmt.Errorf("no plugin is named %q", l.name)
	}
	in, err := l.plugin.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer in.calls.release()
	hooks, ok := in.rpc.(tool.Hook)
	if !ok || !slices.Contains(in.desc.Capabilities, tool.CapabilityHooks) {
		return nil, fmt.Errorf("plugin %s serves no hooks (capability %q is missing); name another plugin in the hook block, or rebuild the plugin with sdk.Plugin.Hook", l.name, tool.CapabilityHooks)
	}
	a, err := hooks.Hook(ctx, input)
	if err != nil && mayHaveDied(ctx, tool.AsError(err)) && in.proc.hasExited(500*time.Millisecond) {
		l.plugin.forget(in)
		return nil, fmt.Errorf("plugin %s ended during the hook (%s)", l.name, in.proc.exitText())
	}
	if in.proven.CompareAndSwap(false, true) {
		l.plugin.recovery.proven()
	}
	return a, err
}

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
