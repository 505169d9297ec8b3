package reload

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/registry"
)

// Feed sends values to its subscribers. The zero value is ready to use. It is safe for concurrent use.
type Feed[T any] struct {
	mu   sync.Mutex
	last int
	by   map[int]func(T)
}

// Subscribe calls f with each value until the caller calls cancel. The function f must return quickly and must not
// change the host.
func (s *Feed[T]) Subscribe(f func(T)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := s.last
	if s.by == nil {
		s.by = make(map[int]func(T))
	}
	s.by[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.by, id)
	}
}

func (s *Feed[T]) send(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		f(v)
	}
}

// Update describes changes that a reload or an operator made.
type Update struct {
	// Tools lists three kinds of tools: new tools, tools with a changed definition, and tools that can no longer be
	// called.
	Tools []registry.Change
	// Items reports whether the items of plugins changed. Items are objects other than tools that plugins offer, such
	// as prompts.
	Items bool
}

// announce notifies hooks and subscribers about the differences between two generations.
func (r *Reloader) announce(old, now *generation.Generation) {
	r.notifyHooks(old, now)
	changes := registry.Compare(old.Callable(), now.Callable())
	items := !slices.EqualFunc(old.Registry.Items(), now.Registry.Items(), func(a, b *registry.Item) bool {
		return reflect.DeepEqual(a, b)
	})
	if len(changes) > 0 || items {
		r.updates.send(Update{Tools: changes, Items: items})
	}
}

// notifyHooks notifies hooks about new callable tools and about tools that can no longer be called. A nil old means
// that no earlier generation exists.
func (r *Reloader) notifyHooks(old, now *generation.Generation) {
	if now.Hooks == nil && (old == nil || old.Hooks == nil) {
		return
	}
	before, after := definitions(old), definitions(now)
	var notify []func(context.Context)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			notify = append(notify, r.notifications(old.Hooks, tool.HookUnregister, name, nil)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == nil {
			notify = append(notify, r.notifications(now.Hooks, tool.HookRegister, name, after[name])...)
		}
	}
	r.notifier.Add(notify)
}

// definitions maps the full names of the callable tools to their definitions.
func definitions(g *generation.Generation) map[string]*tool.Definition {
	out := make(map[string]*tool.Definition)
	if g == nil {
		return out
	}
	for _, e := range g.Registry.All() {
		if e.Enabled {
			d := e.Definition
			out[e.FullName()] = &d
		}
	}
	return out
}

// notifications returns a function for each hook that matches an event. Each function notifies its hook.
func (r *Reloader) notifications(hooks *hook.Set, event tool.HookEvent, name string,
	d *tool.Definition) []func(context.Context) {
	var out []func(context.Context)
	for _, one := range hooks.For(event, name) {
		out = append(out, func(ctx context.Context) {
			if err := one.Notify(ctx, &tool.HookInput{Event: event, Tool: name, Definition: d}); err != nil &&
				!errors.Is(err, context.Canceled) {
				r.Log.Warn("a hook failed", "hook", one.Name, "event", event, "tool", name, "why", err)
			}
		})
	}
	return out
}
