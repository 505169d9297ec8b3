package generation

import (
	"maps"
	"slices"
	"sync"

	"toolhost.dev/host/internal/config"
)

// Overrides are changes made at run time. They outlast reloads and outrank the configuration until the host is closed.
// The zero value is ready to use. It is safe for concurrent use.
type Overrides struct {
	mu      sync.Mutex
	tools   map[string]bool // whether a tool is enabled, by full name
	plugins []config.Plugin // registered
	removed map[string]bool // plugins that were unregistered
	alias   []config.Alias
}

// Enabled returns whether a tool was enabled or disabled. set is false if it was neither.
func (o *Overrides) Enabled(tool string) (on, set bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	on, set = o.tools[tool]
	return on, set
}

// SetEnabled enables or disables tools, by full name.
func (o *Overrides) SetEnabled(tools []string, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tools == nil {
		o.tools = make(map[string]bool)
	}
	for _, name := range tools {
		o.tools[name] = on
	}
}

// ResetEnabled undoes SetEnabled for tools.
func (o *Overrides) ResetEnabled(tools []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range tools {
		delete(o.tools, name)
	}
}

// Aliases returns the added aliases.
func (o *Overrides) Aliases() []config.Alias {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.alias)
}

// AddAlias adds an alias.
func (o *Overrides) AddAlias(a config.Alias) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alias = append(o.alias, a)
}

// RemoveAlias removes an added alias. It reports whether there was one.
func (o *Overrides) RemoveAlias(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.alias)
	o.alias = slices.DeleteFunc(o.alias, func(a config.Alias) bool { return a.Name == name })
	return len(o.alias) < before
}

// Register adds a plugin. undo takes that back.
func (o *Overrides) Register(p config.Plugin) (undo func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.plugins = append(o.plugins, p)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.plugins = slices.DeleteFunc(o.plugins, func(q config.Plugin) bool { return q.Name == p.Name })
	}
}

// Unregister removes a plugin, registered or configured. The caller must call done with whether that took effect.
func (o *Overrides) Unregister(name string) (done func(ok bool)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removed == nil {
		o.removed = make(map[string]bool)
	}
	o.removed[name] = true
	before := o.plugins
	o.plugins = slices.DeleteFunc(slices.Clone(before), func(p config.Plugin) bool { return p.Name == name })
	return func(ok bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		wasRegistered := len(before) != len(o.plugins)
		if !ok {
			o.plugins = before
		}
		if !ok || wasRegistered { // a registered plugin may be registered again
			delete(o.removed, name)
		}
	}
}

// Removed returns the names of the plugins that were unregistered.
func (o *Overrides) Removed() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.removed)
}

// Apply adds registered plugins to a configuration, and removes unregistered ones.
func (o *Overrides) Apply(cfg *config.Config) {
	o.mu.Lock()
	defer o.mu.Unlock()
	cfg.Plugins = slices.DeleteFunc(cfg.Plugins, func(p config.Plugin) bool { return o.removed[p.Name] })
	for _, p := range o.plugins {
		if cfg.Plugin(p.Name) == nil {
			cfg.Plugins = append(cfg.Plugins, p)
		}
	}
}
