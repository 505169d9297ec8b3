package reload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/privilege"
)

// narrow refuses a configuration, but applies the restrictions in it. Therefore an operator can rely on a
// restriction even if another part of the configuration is wrong. The attempt continues with the old configuration,
// without the rights that the new configuration takes away.
func (a *attempt) narrow(cfg *config.Config, why error) {
	if a.opts.dry {
		a.refuseConfig(cfg, why)
		return
	}
	narrowed, taken := privilege.Intersect(a.old.Config, a.effective(cfg))
	if len(narrowed.Restricted) > 0 {
		why = fmt.Errorf("%w. The restrictions in it apply already: %s", why, strings.Join(narrowed.Restricted, "; "))
	}
	a.refuseConfig(cfg, why)
	if len(taken) == 0 {
		return
	}
	a.report.Config.Restricted = taken
	a.reloader.Log.Warn("the restrictions of the refused configuration apply", "restrictions", taken)
	a.cfg, a.narrowed = narrowed, true
	// Ignore the error. It lists plugins whose confinement became impossible, and each of these plugins fails
	// separately.
	if a.launcher, _ = a.builder.Launcher(narrowed); a.launcher == nil { // impossible: fewer roots are in the new configuration
		a.cfg, a.launcher, a.narrowed = a.old.Config, a.old.Launcher, false
	}
}

// effective returns the configuration without rules that cannot work and without the blocks of tools that the host does
// not have, because these restrict nothing. Therefore their correction must not count as an increase of privileges.
func (a *attempt) effective(cfg *config.Config) *config.Config {
	out := *cfg
	out.Permissions.Rules = slices.DeleteFunc(slices.Clone(cfg.Permissions.Rules), func(r config.PermissionRule) bool {
		return !privilege.RuleWorks(&r)
	})
	if len(a.old.Unloaded) > 0 { // their tools are not known
		return &out
	}
	out.Tools = maps.Clone(cfg.Tools)
	maps.DeleteFunc(out.Tools, func(name string, _ config.Tool) bool { return !a.old.Knows(name) })
	out.Permissions.Rules = slices.DeleteFunc(out.Permissions.Rules, func(r config.PermissionRule) bool {
		return slices.ContainsFunc(r.Tools, func(name string) bool { return !a.old.Knows(name) })
	})
	return &out
}

// rollBack refuses the new configuration after a failure. It restores the old configuration, without the rights that
// the new configuration takes away. It keeps the steps that are valid for both configurations.
func (a *attempt) rollBack(ctx context.Context, why error) {
	text := fmt.Errorf("the configuration is refused because a part of it does not work: %w", why)
	if s := a.culprit(); s != nil {
		if pos := a.cfg.PluginPosition(s.name); pos != "" {
			text = fmt.Errorf("%s: %w", pos, text)
		}
	}
	refused := a.cfg
	a.cfg, a.launcher = a.old.Config, a.old.Launcher
	if a.narrow(refused, text); a.narrowed {
		a.discard()
		a.steps = nil
		a.prepare()
		a.try(ctx)
		return
	}
	by := make(map[string]*step)
	for _, s := range a.steps {
		if s.configured {
			s.discard()
			s.err = nil
		}
		by[s.name] = s
	}
	a.steps = nil
	for _, p := range a.old.Plugins {
		a.steps = append(a.steps, by[p.Name])
	}
}

// withoutRights makes the plugin of a step unavailable if the plugin does not work with the remaining rights. The old
// process still has the rights that were taken away, so it must not serve any longer.
func (s *step) withoutRights() {
	if s.next.Err == nil {
		s.next.Err = tool.Errorf(tool.Unavailable, "Plugin %s is stopped, because a change of the configuration takes rights away from it, and it does not start without them: %s", s.name, refusalText(s.err))
	}
}
