package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/supervisor"
)

// Hook is a hook of the embedder's, with what decides when it is called.
type Hook = hook.Hook

// checkHooks says what is wrong with the embedder's hooks.
func checkHooks(own []Hook, cfg *config.Config) error {
	seen := make(map[string]bool)
	for _, h := range cfg.Hooks {
		seen[h.Name] = true
	}
	for i := range own {
		if err := own[i].Check(); err != nil {
			return err
		}
		if seen[own[i].Name] {
			return fmt.Errorf("two hooks have the name %q", own[i].Name)
		}
		seen[own[i].Name] = true
	}
	return nil
}

// hooks are the embedder's and those of a generation's configuration; nil: there are none.
func (h *Host) hooks(g *generation) *hook.Set {
	all := slices.Clone(h.opts.Hooks)
	for _, c := range g.cfg.Hooks {
		out := Hook{Name: c.Name, Tools: c.Tools, Priority: c.Priority, Timeout: c.Timeout, AllowOnFailure: c.AllowOnFailure, Place: c.Place}
		for _, e := range c.On {
			out.On = append(out.On, tool.HookEvent(e))
		}
		if c.Plugin != "" {
			out.Handler = pluginHook{h, c.Plugin}
		} else {
			out.Handler = &hook.Command{
				Argv: c.Command, Env: supervisor.Environment(c.Env), Run: supervisor.Run,
				Writable: func(workspace string) []string { return h.writable(g, workspace) },
			}
		}
		all = append(all, out)
	}
	return hook.New(all)
}

// checkHookPlugins reports plugins that are to serve hooks and cannot: calls would else be refused
// before anybody was told why.
func (g *generation) checkHookPlugins() {
	for _, c := range g.cfg.Hooks {
		if c.Plugin == "" {
			continue
		}
		m := g.member(c.Plugin)
		if m == nil {
			g.problem("%s: the hook %q fails, because plugin %s is left out.", c.Place, c.Name, c.Plugin)
		} else if d := m.desc.Load(); d != nil && !slices.Contains(d.Capabilities, tool.CapabilityHooks) {
			g.problem("%s: the hook %q fails, because plugin %s serves no hooks (it lacks the capability %q).", c.Place, c.Name, c.Plugin, tool.CapabilityHooks)
		}
	}
}

// writable are the directories that tools may write to.
func (h *Host) writable(g *generation, workspace string) []string {
	var out []string
	for _, r := range g.roots.of(cmp.Or(workspace, h.opts.Workspace), false) {
		if r.Writable {
			out = append(out, r.Path)
		}
	}
	for _, m := range g.members {
		if dir := h.pluginStateDir(m.Name); dir != "" {
			out = append(out, dir)
		}
		out = append(out, m.Confinement.Write...)
	}
	return out
}

// pluginHook is a plugin as a hook: as it is now, whatever has replaced it.
type pluginHook struct {
	host   *Host
	plugin string
}

// Hook implements [tool.Hook].
func (p pluginHook) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	for {
		m := p.host.current.Load().member(p.plugin)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case m == nil:
			return nil, fmt.Errorf("plugin %s is not there", p.plugin)
		case m.err != nil:
			return nil, fmt.Errorf("plugin %s is not loaded: %w", p.plugin, m.err)
		}
		if at := (supervisor.Set{p.plugin: m.plugin}).Reserve(p.plugin); at != nil {
			defer at.Release()
			return at.Hook(ctx, in)
		}
	}
}

// noticesGrace is how long hooks have, when the host ends, to hear what they were not told yet.
const noticesGrace = 5 * time.Second

// notices are what hooks are told of tools, one after the other, beside everything else.
type notices struct {
	mu      sync.Mutex
	queue   []func(context.Context)
	running bool
	closed  bool
	idle    sync.WaitGroup
	cancel  context.CancelFunc
}

func (n *notices) add(tell []func(context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(tell) == 0 {
		return
	}
	n.queue = append(n.queue, tell...)
	if n.running {
		return
	}
	n.running = true
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.idle.Go(func() {
		defer cancel()
		for {
			n.mu.Lock()
			if len(n.queue) == 0 {
				n.running = false
				n.mu.Unlock()
				return
			}
			next := n.queue[0]
			n.queue = n.queue[1:]
			n.mu.Unlock()
			next(ctx)
		}
	})
}

// close waits for what is to be told, but not for long.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	stop := time.AfterFunc(noticesGrace, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = nil
		if n.cancel != nil {
			n.cancel()
		}
	})
	n.mu.Unlock()
	n.idle.Wait()
	stop.Stop()
}

// tellHooks tells hooks which tools can be called in a generation that could not be in the one
// before (nil: there was none), and which no longer can.
func (h *Host) tellHooks(old, now *generation) {
	if now.dispatch.Hooks == nil && (old == nil || old.dispatch.Hooks == nil) {
		return
	}
	callable := func(g *generation) map[string]*tool.Definition {
		out := make(map[string]*tool.Definition)
		if g == nil {
			return out
		}
		for _, e := range g.registry.All() {
			if e.Enabled {
				d := e.Definition
				out[e.FullName()] = &d
			}
		}
		return out
	}
	before, after := callable(old), callable(now)
	var tell []func(context.Context)
	notice := func(hooks *hook.Set, event tool.HookEvent, name string, d *tool.Definition) {
		for _, one := range hooks.For(event, name) {
			tell = append(tell, func(ctx context.Context) {
				if err := one.Tell(ctx, &tool.HookInput{Event: event, Tool: name, Definition: d}); err != nil && !errors.Is(err, context.Canceled) {
					h.log.Warn("a hook failed", "hook", one.Name, "event", event, "tool", name, "why", err)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			notice(old.dispatch.Hooks, tool.HookUnregister, name, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == nil {
			notice(now.dispatch.Hooks, tool.HookRegister, name, after[name])
		}
	}
	h.notices.add(tell)
}
