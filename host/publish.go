package host

import (
	"fmt"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
)

// publish makes the next generation of the steps that succeeded. All calls that begin from
// then on are its own; the plugins that it does without are retired.
func (r *reload) publish() {
	h := r.host
	g := r.assemble()
	if r.cfg != r.old.cfg {
		r.out.Config.Changed = true
		r.acceptConfig()
		auditing(r.cfg, h.state)
		h.scheduler.SetMaxParallel(r.cfg.Host.MaxParallel)
		if h.opts.OnConfig != nil {
			h.opts.OnConfig(r.cfg.Host.LogLevel)
		}
	}
	if r.cfg.Host.StateDir != r.old.cfg.Host.StateDir && h.opts.StateDir == "" {
		g.problem("The state directory of a running host stays: state_dir counts from its next start.")
	}
	r.out.Problems = g.problems
	h.reportDefinitions(g)
	h.lives.Publish(g.registry, g.down)
	h.current.Store(g)
	if r.cfg != r.old.cfg {
		if err := h.watchFiles(); err != nil {
			h.log.Warn("changes of files are not noticed", "why", err)
		}
		select {
		case h.live.configured <- struct{}{}:
		default:
		}
	}
	for _, s := range r.steps {
		r.tell(s)
		if s.old != nil && s.next != s.old {
			s.old.plugin.Retire()
		}
	}
	if r.cfg != r.old.cfg || slices.ContainsFunc(r.steps, func(s *step) bool { return s.next != s.old }) {
		h.keepApplied(g)
	}
	h.tellHooks(r.old, g)
	if changes := toolChanges(r.old.registry, g.registry); len(changes) > 0 {
		h.watchers.tell(Update{Tools: changes})
	}
}

// assemble makes the next generation. What fails on the way is refused: a plugin alone when
// only its binary is another, and else all of the configuration.
func (r *reload) assemble() *generation {
	for {
		if r.cfg != r.old.cfg {
			for _, s := range r.steps {
				if s.configured && s.err != nil {
					r.rollBack(s.err)
					break
				}
			}
		}
		var members []*member
		for _, s := range r.steps {
			if s.err != nil {
				s.discard()
			}
			if s.next != nil {
				members = append(members, s.next)
			}
		}
		g, refused, err := r.host.assemble(r.cfg, r.conf, members)
		again := false
		if err != nil && r.cfg != r.old.cfg {
			r.rollBack(err)
			continue
		}
		if err != nil { // tools that a rule is about are gone
			g.problem("%v", err)
		}
		for _, s := range r.steps {
			if err := refused[s.name]; err != nil && s.next != s.old {
				s.err, again = err, true
			}
		}
		if !again {
			return g
		}
	}
}

// rollBack goes on with the old configuration, and what there is to do under it.
func (r *reload) rollBack(why error) {
	text := fmt.Errorf("nothing of it is used, because a part does not work: %w", why)
	if p := r.cfg.PluginPosition(r.culprit()); p != "" {
		text = fmt.Errorf("%s: %w", p, text)
	}
	r.refuseConfig(r.cfg, text)
	r.cfg, r.conf = r.old.cfg, r.old.confinement
	by := make(map[string]*step)
	for _, s := range r.steps {
		if s.configured {
			s.discard()
			s.err = nil
		}
		by[s.name] = s
	}
	r.steps = nil
	for _, m := range r.old.members { // in the old order
		r.steps = append(r.steps, by[m.Name])
	}
}

func (r *reload) culprit() string {
	for _, s := range r.steps {
		if s.configured && s.err != nil {
			return s.name
		}
	}
	return ""
}

// tell says what became of a step, and remembers what was refused.
func (r *reload) tell(s *step) {
	h := r.host
	p := PluginReload{Name: s.name, Changes: s.changes}
	version := func(m *member) string {
		if m != nil {
			if d := m.desc.Load(); d != nil {
				return d.Version
			}
		}
		return ""
	}
	p.From, p.To = version(s.old), version(s.next)
	h.reloads.mu.Lock()
	defer h.reloads.mu.Unlock()
	switch {
	case s.err != nil:
		p.Outcome, p.Refused, p.To = Refused, refusalText(s.err), ""
		if h.reloads.plugins == nil {
			h.reloads.plugins = make(map[string]refusal)
		}
		h.reloads.plugins[s.name] = refusal{file: s.file, why: p.Refused}
		h.log.Warn("a plugin is not replaced", "plugin", s.name, "why", p.Refused)
	case s.next == s.old:
		return
	case s.next == nil:
		p.Outcome = Removed
	case s.old == nil:
		p.Outcome = Added
	default:
		p.Outcome = Swapped
		p.Draining = s.old.plugin.Users()
	}
	if s.err == nil {
		delete(h.reloads.plugins, s.name)
		h.log.Info("plugin "+p.Outcome, "plugin", s.name, "from", p.From, "to", p.To, "calls on the old one", p.Draining)
	}
	r.out.Plugins = append(r.out.Plugins, p)
}

func refusalText(err error) string {
	return tool.AsError(err).Message
}

// Update is what a reload or an operator changed.
type Update struct {
	// Tools whose definition is another, that are new, or that can no longer be called.
	Tools []ToolChange
}

// Subscribe has f told of each update, after calls see it. f must return soon and must not change
// the host. cancel ends that.
func (h *Host) Subscribe(f func(Update)) (cancel func()) { return h.watchers.add(f) }

// Transition is a step in a tool's life; see [ToolState].
type Transition = registry.Transition

// ToolState is where a tool is in its life.
type ToolState = registry.State

// ToolLife is a tool's state with its history.
type ToolLife = registry.LifeStatus

// SubscribeStates has f told of each transition of a tool's state. Calls are none: a tool that is
// executing is counted, not told. f must return soon and must not call the host.
func (h *Host) SubscribeStates(f func(Transition)) (cancel func()) { return h.states.add(f) }

// subscribers hear of something.
type subscribers[T any] struct {
	mu   sync.Mutex
	last int
	by   map[int]func(T)
}

func (s *subscribers[T]) add(f func(T)) func() {
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

func (s *subscribers[T]) tell(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		f(v)
	}
}

// toolChanges compares what can be called before and after.
func toolChanges(old, now *registry.Registry) []ToolChange {
	callable := func(r *registry.Registry) (out []tool.Definition) {
		for _, e := range r.All() {
			if e.Enabled {
				d := e.Definition
				d.Name = e.FullName()
				out = append(out, d)
			}
		}
		return out
	}
	return registry.Compare(callable(old), callable(now))
}
