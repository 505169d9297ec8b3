package admin

import (
	"context"
	"errors"
	"slices"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/settings"
)

// Tree is a configuration with its expressions evaluated, and the origin of each value. Sensitive values are masked. Its HCL is an
// equivalent configuration, apart from those.
type Tree = settings.Tree

// Show evaluates the configuration that opts name, without starting anything. With defaults it includes the settings that the
// configuration leaves out.
func Show(opts Options, defaults bool) (*Tree, error) {
	cfg, err := load(opts)
	if err != nil {
		return nil, err
	}
	tree := settings.Show(cfg, defaults)
	if !defaults {
		return tree, nil
	}
	return tree, settings.AddProfiles(tree, cfg)
}

// PluginNames returns the names of the configured plugins, sorted, for completion at a command line.
func PluginNames(opts Options) ([]string, error) {
	cfg, err := load(opts)
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

// Plan returns what a host that uses one configuration would change to use the one that opts name. against is the former. If it is
// empty, the plan compares with what a host used last, or else with what is pinned, or else with nothing.
func Plan(ctx context.Context, opts Options, against string) (*host.Plan, error) {
	target := opts
	if cfg, err := load(opts); err == nil && opts.StateDir == "" {
		opts.StateDir = cfg.Host.StateDir // hosts that use the configuration have their state there
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
