package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
)

// managed is what was changed at run time. It holds until the host is closed, whatever is
// reloaded, and goes before the configuration.
type managed struct {
	mu      sync.Mutex
	tools   map[string]bool // enabled or not, by full name
	plugins []config.Plugin
	removed map[string]bool // plugins of the configuration
	alias   []config.Alias
}

func (m *managed) enabled(tool string) (on, said bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	on, said = m.tools[tool]
	return on, said
}

func (m *managed) aliases() []config.Alias {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.alias)
}

// unregistered are plugins of the configuration that were taken out.
func (m *managed) unregistered() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.removed)
}

// amend changes a configuration as it was changed at run time.
func (m *managed) amend(cfg *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cfg.Plugins = slices.DeleteFunc(cfg.Plugins, func(p config.Plugin) bool { return m.removed[p.Name] })
	for _, p := range m.plugins {
		if cfg.Plugin(p.Name) == nil {
			cfg.Plugins = append(cfg.Plugins, p)
		}
	}
}

// Enable lets a tool be called. With a plugin's name, it takes back what [Host.Disable] did to the
// plugin's tools. It holds until the host is closed, and goes before the configuration. The
// error says that nothing has that name.
func (h *Host) Enable(name string) error { return h.setEnabled(name, true) }

// Disable keeps a tool from being called, or all tools of a plugin. Calls that have begun end.
func (h *Host) Disable(name string) error { return h.setEnabled(name, false) }

func (h *Host) setEnabled(name string, on bool) error {
	h.reloads.one.Lock()
	defer h.reloads.one.Unlock()
	m := &h.managed
	known := false
	m.mu.Lock()
	if m.tools == nil {
		m.tools = make(map[string]bool)
	}
	for _, e := range h.current.Load().registry.All() {
		switch {
		case e.FullName() == name || e.Plugin == name && !on:
			known, m.tools[e.FullName()] = true, on
		case e.Plugin == name: // one that was off before stays so
			known = true
			delete(m.tools, e.FullName())
		}
	}
	m.mu.Unlock()
	if !known {
		return fmt.Errorf("there is no tool and no plugin %q: toolhost tools lists them", name)
	}
	h.renew()
	return nil
}

// renew publishes what there is anew. reloads.one must be held.
func (h *Host) renew() {
	old := h.current.Load()
	g, _, err := h.assemble(old.cfg, old.confinement, old.members)
	if err != nil { // tools that a rule is about are gone
		g.problem("%v", err)
	}
	h.reportDefinitions(g)
	h.lives.Publish(g.registry, g.down)
	h.current.Store(g)
	h.tellHooks(old, g)
	if changes := toolChanges(old.registry, g.registry); len(changes) > 0 {
		h.watchers.tell(Update{Tools: changes})
	}
}

// AddAlias gives a tool another name, with further names of its parameters: params maps each to
// the parameter that it is for. The error says what is wrong with it.
func (h *Host) AddAlias(name, tool string, params map[string]string) error {
	h.reloads.one.Lock()
	defer h.reloads.one.Unlock()
	if err := config.CheckAlias(name); err != nil {
		return err
	}
	r := h.current.Load().registry
	if _, taken := r.Aliases()[name]; taken {
		return fmt.Errorf("there is an alias %q already", name)
	}
	a := registry.Alias{Name: name, Tool: tool, Params: params}
	if ns, rest, ok := strings.Cut(tool, ":"); ok {
		a.Namespace, a.Tool = ns, rest
	}
	if err := r.CheckAlias(a); err != nil {
		return err
	}
	h.managed.mu.Lock()
	h.managed.alias = append(h.managed.alias, config.Alias{Name: name, Tool: tool, Params: params})
	h.managed.mu.Unlock()
	h.renew()
	return nil
}

// RemoveAlias takes back what [Host.AddAlias] gave. The error says that there is none of the name.
func (h *Host) RemoveAlias(name string) error {
	h.reloads.one.Lock()
	defer h.reloads.one.Unlock()
	m := &h.managed
	m.mu.Lock()
	before := len(m.alias)
	m.alias = slices.DeleteFunc(m.alias, func(a config.Alias) bool { return a.Name == name })
	gone := len(m.alias) < before
	m.mu.Unlock()
	if !gone {
		return fmt.Errorf("no alias %q was added", name)
	}
	h.renew()
	return nil
}

// Plugin is one that is registered at run time.
type Plugin struct {
	// Name, unique among the plugins.
	Name string
	// Path of the binary, absolute.
	Path string
	Args []string
	// Env is added to the environment that a plugin gets.
	Env map[string]string
	// DependsOn names plugins that are started before it, and stopped after it.
	DependsOn []string
	// Field is the namespace of its tools; empty: they are agent tools.
	Field string
	// Config is a JSON object; nil: none.
	Config json.RawMessage
}

// Register adds a plugin, which is started and checked as by [Host.Reload]. The error says why it
// is not: names that are taken, or that it does not work.
func (h *Host) Register(ctx context.Context, p Plugin) error {
	add, err := config.NewPlugin(p.Name, p.Path, h.opts.BundledDir)
	if err != nil {
		return err
	}
	add.Args, add.Env, add.Field, add.Config, add.DependsOn = p.Args, p.Env, p.Field, p.Config, p.DependsOn
	g := h.current.Load()
	if g.member(p.Name) != nil {
		return fmt.Errorf("there is a plugin %q already", p.Name)
	}
	for _, on := range p.DependsOn {
		if g.member(on) == nil {
			return fmt.Errorf("it depends on plugin %q, which is not there", on)
		}
	}
	m := &h.managed
	m.mu.Lock()
	m.plugins = append(m.plugins, add)
	m.mu.Unlock()
	r, err := h.Reload(ctx, ReloadOptions{})
	if err == nil && h.current.Load().member(p.Name) == nil {
		err = errors.New(r.Config.Refused)
	}
	if err != nil {
		m.mu.Lock()
		m.plugins = slices.DeleteFunc(m.plugins, func(q config.Plugin) bool { return q.Name == p.Name })
		m.mu.Unlock()
	}
	return err
}

// Unregister takes a plugin out with its tools. Calls that have begun end on it.
func (h *Host) Unregister(ctx context.Context, name string) error {
	g := h.current.Load()
	if g.member(name) == nil {
		return fmt.Errorf("there is no plugin %q: toolhost status lists them", name)
	}
	for _, other := range g.members {
		if slices.Contains(other.DependsOn, name) {
			return fmt.Errorf("plugin %s depends on it: unregister that first", other.Name)
		}
	}
	m := &h.managed
	m.mu.Lock()
	if m.removed == nil {
		m.removed = make(map[string]bool)
	}
	m.removed[name] = true
	plugins := m.plugins
	m.plugins = slices.DeleteFunc(slices.Clone(plugins), func(p config.Plugin) bool { return p.Name == name })
	m.mu.Unlock()
	r, err := h.Reload(ctx, ReloadOptions{})
	if err == nil && h.current.Load().member(name) != nil {
		err = errors.New(r.Config.Refused)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.plugins = plugins
	}
	if err != nil || len(plugins) != len(m.plugins) { // one that was registered may be again
		delete(m.removed, name)
	}
	return err
}
