package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trust"
)

// CheckHooks checks the hooks of the embedding program. It returns an error if a hook is invalid or a configured hook
// has the same name.
func CheckHooks(own []hook.Hook, cfg *config.Config) error {
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

// hooks returns the hooks of the embedding program and of the configuration.
func (b *Builder) hooks(g *Generation) *hook.Set {
	all := slices.Clone(b.Options.Hooks)
	for _, c := range g.hooks {
		out := hook.Hook{Name: c.Name, Tools: c.Tools, Priority: c.Priority, Timeout: c.Timeout,
			AllowOnFailure: c.AllowOnFailure, Place: c.Place}
		for _, e := range c.On {
			out.On = append(out.On, tool.HookEvent(e))
		}
		switch {
		case c.Refused != "":
			out.Handler = refusedHook(c.Refused)
		case c.Plugin != "":
			out.Handler = pluginHook{b, c.Plugin}
		default:
			out.Handler = b.command(g, &c)
		}
		all = append(all, out)
	}
	return hook.New(all)
}

// command returns the handler of a hook that runs a program.
func (b *Builder) command(g *Generation, c *config.Hook) *hook.Command {
	return &hook.Command{
		Argv: c.Command, Env: supervisor.Environment(c.Env), Run: supervisor.Run,
		Writable: func(workspace string) []string { return b.writable(g, workspace) },
		Check:    func() error { return b.Pins(g.Config).CheckStart(trust.Start{Block: `hook "` + c.Name + `"`}) },
	}
}

// Try tests the parts of a configuration that would otherwise fail only at a call. It must be called before the
// configuration takes effect. It checks that the programs of hooks exist, and sends the event [hook.Trial] to new
// programs. It also checks that the tools named by blocks of the configuration exist. The argument "plugins" contains
// the plugins of the new configuration. Try ignores hooks and names that the configuration "old" also contains. If old
// is nil, everything is new.
func (b *Builder) Try(ctx context.Context, old, cfg *config.Config, plugins []*Plugin) error {
	g := &Generation{Config: cfg, Plugins: plugins, Roots: b.Roots(cfg)}
	var errs []error
	for i := range cfg.Hooks {
		c := &cfg.Hooks[i]
		if old != nil && slices.ContainsFunc(old.Hooks, c.Equal) {
			continue
		}
		if err := b.tryHook(ctx, g, c); err != nil {
			errs = append(errs, fmt.Errorf("%s: hook %q: %w", c.Place, c.Name, err))
		}
	}
	known := map[string]string{}
	if old != nil {
		known = b.misnamed(old, plugins)
	}
	wrong := b.misnamed(cfg, plugins)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if _, before := known[name]; !before {
			errs = append(errs, errors.New(wrong[name]))
		}
	}
	return errors.Join(errs...)
}

func (b *Builder) tryHook(ctx context.Context, g *Generation, c *config.Hook) error {
	if c.Refused != "" {
		return errors.New(c.Refused)
	}
	if c.Plugin != "" {
		if p := g.Plugin(c.Plugin); p == nil || p.Description() == nil {
			return fmt.Errorf("plugin %s is not loaded, so each call would fail", c.Plugin)
		} else if !slices.Contains(p.Description().Capabilities, tool.CapabilityHooks) {
			return fmt.Errorf("plugin %s serves no hooks (capability %q is missing)", c.Plugin, tool.CapabilityHooks)
		}
		return nil
	}
	command := b.command(g, c)
	if err := command.Exists(); err != nil || c.NoTrial {
		return err
	}
	h := hook.Hook{Name: c.Name, On: hook.Events, Timeout: c.Timeout, Place: c.Place, Handler: command}
	if err := h.Try(ctx); err != nil && !c.AllowOnFailure {
		return fmt.Errorf("the program does not work: %w", err)
	}
	return nil
}

// misnamed returns the messages about names in a configuration that no tool has. The keys do not depend on
// the positions in the file. It returns nothing if a plugin is not loaded, because the plugin could have these tools.
func (b *Builder) misnamed(cfg *config.Config, plugins []*Plugin) map[string]string {
	if slices.ContainsFunc(plugins, func(p *Plugin) bool { return p.Err != nil || p.Description() == nil }) {
		return nil
	}
	g, err := probe(cfg, plugins)
	if err != nil {
		return nil // the assembly reports it
	}
	g.addAliases(nil)
	g.tools = b.toolBlocks(cfg, plugins)
	g.checkToolBlocks()
	g.bindLists()
	return g.misnames
}

// probe returns a generation with only the tools of plugins with a known description. It is used to resolve names.
func probe(cfg *config.Config, plugins []*Plugin) (*Generation, error) {
	g := &Generation{Config: cfg, Registry: registry.New(), Unloaded: make(map[string]string), Plugins: plugins}
	var additions []registry.Addition
	for _, p := range plugins {
		additions = append(additions, registry.Addition{Plugin: p.Name, Namespace: p.Field,
			Description: p.Description(), Checked: true, Settings: func(string) registry.Settings {
				return registry.Settings{Bundled: p.Bundled != "" && p.Field == ""}
			}})
	}
	err := errors.Join(g.Registry.AddAll(additions...)...)
	g.setAbsent()
	return g, err
}

// checkHooks reports hooks whose plugin or program cannot run. Otherwise calls would fail without a visible reason.
func (g *Generation) checkHooks() {
	for _, c := range g.Config.Hooks {
		if c.Refused != "" {
			g.Problemf("%s: hook %q does not run, so the calls that it judges are denied: %s.", c.Place, c.Name, c.Refused)
			continue
		}
		if c.Plugin == "" {
			if err := (&hook.Command{Argv: c.Command}).Exists(); err != nil {
				g.Problemf("%s: hook %q fails: %v. Install the program, correct command, or remove the block.", c.Place, c.Name, err)
				g.lostHooks = append(g.lostHooks, g.Problems[len(g.Problems)-1])
			}
			continue
		}
		p := g.Plugin(c.Plugin)
		if p == nil {
			g.Problemf("%s: hook %q fails because plugin %s is not loaded.", c.Place, c.Name, c.Plugin)
		} else if d := p.Description(); d != nil && !slices.Contains(d.Capabilities, tool.CapabilityHooks) {
			g.Problemf("%s: hook %q fails because plugin %s serves no hooks (capability %q is missing).", c.Place, c.Name, c.Plugin, tool.CapabilityHooks)
		}
	}
}

// writable returns the directories in which tools can write.
func (b *Builder) writable(g *Generation, workspace string) []string {
	var out []string
	for _, r := range g.Roots.Of("", cmp.Or(workspace, b.Options.Workspace), false) {
		if r.Writable {
			out = append(out, r.Path)
		}
	}
	for _, p := range g.Plugins {
		if dir := b.Home.Plugin(p.Name); dir != "" {
			out = append(out, dir)
		}
		out = append(out, p.Confinement.Write...)
	}
	return out
}

// refusedHook is a hook that must not run, for the reason in it. It denies all calls, because the hook could deny any
// call. The setting on_failure does not matter, because a tool could otherwise turn off a hook by changing its program.
type refusedHook string

// Hook implements [tool.Hook].
func (h refusedHook) Hook(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
	return &tool.HookAnswer{Decision: tool.HookDeny, Reason: string(h)}, nil
}

// pluginHook is a hook that a plugin implements. It always calls the plugin of the current generation.
type pluginHook struct {
	builder *Builder
	plugin  string
}

// Hook implements [tool.Hook].
func (h pluginHook) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	for {
		p := h.builder.owner.Current().Plugin(h.plugin)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case p == nil:
			return nil, fmt.Errorf("plugin %s does not exist", h.plugin)
		case p.Err != nil:
			return nil, fmt.Errorf("plugin %s is not loaded: %w", h.plugin, p.Err)
		}
		if lease := (supervisor.Set{h.plugin: p.Process}).Reserve(h.plugin, ""); lease != nil {
			defer lease.Release()
			return lease.Hook(ctx, in)
		}
	}
}
