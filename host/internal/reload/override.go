package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/registry"
)

// SetEnabled enables or disables a tool, or all tools of a plugin. To enable the tools of a plugin, SetEnabled only
// removes the changes that it made to them earlier. Therefore a tool that the configuration disables stays disabled.
//
// The change overrides the configuration until the host is closed. Running calls continue. SetEnabled returns an error
// for an unknown name.
func (r *Reloader) SetEnabled(name string, on bool) error {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	var set, reset []string
	for _, e := range r.Current().Registry.All() {
		switch {
		case e.FullName() == name || e.Plugin == name && !on:
			set = append(set, e.FullName())
		case e.Plugin == name:
			reset = append(reset, e.FullName())
		}
	}
	if len(set) == 0 && len(reset) == 0 {
		return fmt.Errorf("unknown tool or plugin %q; for a list run toolhost tools or toolhost status", name)
	}
	r.Builder.Overrides.SetEnabled(set, on)
	r.Builder.Overrides.ResetEnabled(reset)
	r.renew()
	return nil
}

// Renew builds the current generation again after a change outside the configuration, such as an approval.
func (r *Reloader) Renew() {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	r.renew()
}

// renew does the work of Renew. The caller must hold progress.one.
func (r *Reloader) renew() {
	old := r.Current()
	g, _, err := r.Builder.Assemble(old.Config, old.Launcher, old.Plugins)
	if err != nil { // a rule names tools that no longer exist
		g.Problemf("%v", err)
	}
	r.install(g)
	r.announce(old, g)
}

// Rediscovered implements [generation.Owner]. It publishes the changed tools of a plugin in the background. It must not
// wait for a running reload, because that reload can be the caller of Rediscovered.
func (r *Reloader) Rediscovered(p *generation.Plugin, now *tool.Description) {
	go func() {
		r.progress.one.Lock()
		defer r.progress.one.Unlock()
		if g := r.Current(); g != nil && g.Plugin(p.Name) == p && !r.progress.isClosed() {
			p.SetDescription(now)
			p.Checked = false
			r.renew()
		}
	}()
}

// AddAlias adds an additional name for a tool. The map "params" contains additional names for the tool's parameters.
// AddAlias returns an error for an invalid alias.
func (r *Reloader) AddAlias(name, target string, params map[string]string) error {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	if err := config.CheckAlias(name); err != nil {
		return err
	}
	reg := r.Current().Registry
	if _, taken := reg.Aliases()[name]; taken {
		return fmt.Errorf("the alias %q exists already", name)
	}
	a := registry.Alias{Name: name, Tool: target, Habit: registry.Habit{Params: params}}
	if ns, rest, ok := strings.Cut(target, ":"); ok {
		a.Namespace, a.Tool = ns, rest
	}
	if err := reg.CheckAlias(a); err != nil {
		return err
	}
	r.Builder.Overrides.AddAlias(config.Alias{Name: name, Tool: target, Params: params})
	r.renew()
	return nil
}

// RemoveAlias removes an alias that [Reloader.AddAlias] added. It returns an error for an unknown alias.
func (r *Reloader) RemoveAlias(name string) error {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	if !r.Builder.Overrides.RemoveAlias(name) {
		return fmt.Errorf("no alias %q was added", name)
	}
	r.renew()
	return nil
}

// Plugin describes a plugin for registration at run time.
type Plugin struct {
	// Name is the name of the plugin, which must be unique.
	Name string
	// Path is the absolute path of the binary.
	Path string
	Args []string
	// Env contains additional environment variables for the plugin.
	Env map[string]string
	// DependsOn lists the plugins that start before this plugin and stop after it.
	DependsOn []string
	// Field is the namespace of the plugin's tools. Empty means that the tools are agent tools.
	Field string
	// Config is the plugin's configuration as a JSON object, or nil.
	Config json.RawMessage
}

// Register starts, checks and adds a plugin, as [Reloader.Reload] does for a configured plugin. It returns an error if
// the name is already in use or a check fails.
func (r *Reloader) Register(ctx context.Context, p Plugin) error {
	add, err := config.NewPlugin(p.Name, p.Path, r.Builder.Options.Bundled)
	if err != nil {
		return err
	}
	add.Args, add.Env, add.Field, add.Config, add.DependsOn = p.Args, p.Env, p.Field, p.Config, p.DependsOn
	g := r.Current()
	if g.Plugin(p.Name) != nil {
		return fmt.Errorf("the plugin %q exists already", p.Name)
	}
	for _, on := range p.DependsOn {
		if g.Plugin(on) == nil {
			return fmt.Errorf("the plugin depends on plugin %q, which does not exist", on)
		}
	}
	undo := r.Builder.Overrides.Register(add)
	out, err := r.Reload(ctx, Options{})
	if err == nil && r.Current().Plugin(p.Name) == nil {
		err = errors.New(out.Config.Refused)
	}
	if err != nil {
		undo()
	}
	return err
}

// Unregister removes a plugin and its tools. Running calls of these tools continue. Unregister returns an error if the
// plugin is unknown or another plugin depends on it.
func (r *Reloader) Unregister(ctx context.Context, name string) error {
	g := r.Current()
	if g.Plugin(name) == nil {
		return fmt.Errorf("unknown plugin %q; for a list run toolhost status", name)
	}
	for _, other := range g.Plugins {
		if slices.Contains(other.DependsOn, name) {
			return fmt.Errorf("plugin %s depends on this plugin; unregister plugin %[1]s first", other.Name)
		}
	}
	done := r.Builder.Overrides.Unregister(name)
	out, err := r.Reload(ctx, Options{})
	if err == nil && r.Current().Plugin(name) != nil {
		err = errors.New(out.Config.Refused)
	}
	done(err == nil)
	return err
}
