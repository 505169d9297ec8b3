package generation

import (
	"maps"
	"slices"
	"sync"

	"toolhost.dev/host/internal/config"
)

// Overrides holds changes that the operator or the embedding program makes at run time. They override the
// configuration, even after reloads, until the host is closed. The zero value is ready to use. Overrides is safe for
// concurrent use.
type Overrides struct {
	mu      sync.Mutex
	tools   map[string]bool // whether a tool is enabled, by full name
	plugins []config.Plugin // registered plugins
	removed map[string]bool // names of unregistered plugins
	alias   []config.Alias
}

// Enabled reports whether a tool is enabled. The result "set" is false if nobody enabled or disabled the tool at run
// time.
func (o *Overrides) Enabled(tool string) (on, set bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	on, set = o.tools[tool]
	return on, set
}

// SetEnabled enables or disables tools by their full names.
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

// ResetEnabled removes the changes of SetEnabled for the given tools.
func (o *Overrides) ResetEnabled(tools []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range tools {
		delete(o.tools, name)
	}
}

// Aliases returns the aliases that were added at run time.
func (o *Overrides) Aliases() []config.Alias {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.alias)
}

// AddAlias adds an alias at run time.
func (o *Overrides) AddAlias(a config.Alias) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alias = append(o.alias, a)
}

// RemoveAlias removes an added alias. It returns false if the alias does not exist.
func (o *Overrides) RemoveAlias(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.alias)
	o.alias = slices.DeleteFunc(o.alias, func(a config.Alias) bool { return a.Name == name })
	return len(o.alias) < before
}

// Register adds a plugin. The caller can call undo to remove the plugin again.
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

// Unregister removes a registered or configured plugin. The caller must later call the function "done". If its argument
// "ok" is false, done restores the plugin.
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
		if !ok || wasRegistered { // a plugin that was registered at run time can be registered again
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

// Apply adds the registered plugins to a configuration and removes the unregistered plugins.
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
