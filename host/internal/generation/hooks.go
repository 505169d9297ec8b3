package generation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/hook"
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

// The method "hooks" returns the hooks of the embedding program and of the configuration.
func (b *Builder) hooks(g *Generation) *hook.Set {
	all := slices.Clone(b.Options.Hooks)
	for _, c := range g.Config.Hooks {
		out := hook.Hook{Name: c.Name, Tools: c.Tools, Priority: c.Priority, Timeout: c.Timeout, AllowOnFailure: c.AllowOnFailure, Place: c.Place}
		for _, e := range c.On {
			out.On = append(out.On, tool.HookEvent(e))
		}
		if c.Plugin != "" {
			out.Handler = pluginHook{b, c.Plugin}
		} else {
			out.Handler = &hook.Command{
				Argv: c.Command, Env: supervisor.Environment(c.Env), Run: supervisor.Run,
				Writable: func(workspace string) []string { return b.writable(g, workspace) },
				Check:    func() error { return b.Pins(g.Config).CheckStart(trust.Start{Block: `hook "` + c.Name + `"`}) },
			}
		}
		all = append(all, out)
	}
	return hook.New(all)
}

// checkHookPlugins reports hooks whose plugin cannot run them. Otherwise calls would fail without a visible reason.
func (g *Generation) checkHookPlugins() {
	for _, c := range g.Config.Hooks {
		if c.Plugin == "" {
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

// The method "writable" returns the directories in which tools can write.
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

// pluginHook is a hook that a plugin implements. It always calls the plugin of the current generation.
type pluginHook struct {
	builder *Builder
	plugin  string
}

// Hook implements [tool.Hook].
func (h pluginHook) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	for {
		p := h.builder.Current().Plugin(h.plugin)
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
