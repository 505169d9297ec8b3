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

// SetEnabled enables or disables a tool, or all tools of a plugin. Enabling a plugin undoes what disabling it did, so a tool
// that the configuration disables stays off. It holds until the host is closed and outranks the configuration. Calls that
// have begun end. The error says that no tool and no plugin has that name.
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
		return fmt.Errorf("unknown tool or plugin %q: toolhost tools lists them", name)
	}
	r.Builder.Overrides.SetEnabled(set, on)
	r.Builder.Overrides.ResetEnabled(reset)
	r.renew()
	return nil
}

// Renew builds the current generation again, because something that it depends on changed, such as an approval.
func (r *Reloader) Renew() {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	r.renew()
}

// renew is Renew with progress.one held.
func (r *Reloader) renew() {
	old := r.Current()
	g, _, err := r.Builder.Assemble(old.Config, old.Launcher, old.Plugins)
	if err != nil { // a rule is about tools that are gone
		g.Problemf("%v", err)
	}
	r.install(g)
	r.announce(old, g)
}

// rediscovered publishes the tools that a plugin serves now. It does not wait, because the caller may start the plugin for a
// reload that is under way.
func (r *Reloader) rediscovered(p *generation.Plugin, now *tool.Description) {
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

// AddAlias adds another name for a tool. params maps further names of parameters to the tool's own. The error says what is
// wrong with the alias.
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
	a := registry.Alias{Name: name, Tool: target, Params: params}
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

// RemoveAlias removes an alias that [Reloader.AddAlias] added. The error says that there is none of that name.
func (r *Reloader) RemoveAlias(name string) error {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	if !r.Builder.Overrides.RemoveAlias(name) {
		return fmt.Errorf("no alias %q was added", name)
	}
	r.renew()
	return nil
}

// Plugin is a plugin that is registered at run time.
type Plugin struct {
	// Name is unique among the plugins.
	Name string
	// Path of the binary, absolute.
	Path string
	Args []string
	// Env is added to the environment that plugins get.
	Env map[string]string
	// DependsOn names plugins that start before it and stop after it.
	DependsOn []string
	// Field is the namespace of its tools. Empty means that they are agent tools.
	Field string
	// Config is a JSON object, or nil.
	Config json.RawMessage
}

// Register adds a plugin, which is started and checked as by [Reloader.Reload]. The error says why it is refused: its name is
// taken, or it does not work.
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
			return fmt.Errorf("it depends on plugin %q, which does not exist", on)
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

// Unregister removes a plugin with its tools. Calls that have begun end on it. The error says that there is no such plugin, or
// that another one depends on it.
func (r *Reloader) Unregister(ctx context.Context, name string) error {
	g := r.Current()
	if g.Plugin(name) == nil {
		return fmt.Errorf("there is no plugin %q: toolhost status lists them", name)
	}
	for _, other := range g.Plugins {
		if slices.Contains(other.DependsOn, name) {
			return fmt.Errorf("plugin %s depends on it: unregister that first", other.Name)
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
