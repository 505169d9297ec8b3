package admin

import (
	"context"
	"errors"
	"slices"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/privilege"
)

// Tree is an evaluated configuration with the origin of each value. Its HCL form has the same meaning as the
// configuration, but sensitive values are masked.
type Tree = privilege.SettingTree

// Show evaluates the configuration in the options. It starts no plugin. If defaults is true, the tree also contains
// settings with default values.
func Show(opts Options, defaults bool) (*Tree, error) {
	cfg, err := engine.Options(opts).Configuration()
	if err != nil {
		return nil, err
	}
	tree := privilege.Settings(cfg, defaults)
	if !defaults {
		return tree, nil
	}
	return tree, privilege.AddProfiles(tree, cfg)
}

// PluginNames returns the sorted names of the configured plugins, for command-line completion.
func PluginNames(opts Options) ([]string, error) {
	cfg, err := engine.Options(opts).Configuration()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range cfg.Plugins {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out, nil
}

// Plan returns the changes from an old configuration to a new configuration. The new configuration is in the options,
// and against is the path of the old configuration. If against is empty, Plan compares with the last configuration of a
// host, or else with the pinned plugins. Without pinned plugins, the plan has no baseline.
func Plan(ctx context.Context, opts Options, against string) (*host.Plan, error) {
	target := opts
	if cfg, err := engine.Options(opts).Configuration(); err == nil && opts.StateDir == "" {
		opts.StateDir = cfg.Host.StateDir // use the state directory of hosts with this configuration
	}
	opts.Config = against
	e, err := engine.NewMode(ctx, engine.Options(opts), engine.Mode{Empty: against == ""})
	if err != nil {
		return nil, err
	}
	source, err := engine.Options(target).Source()
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	plan, err := e.Reloader().PlanFor(ctx, source, against == "")
	return plan, errors.Join(err, e.Close())
}
