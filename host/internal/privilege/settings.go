package privilege

import (
	"errors"
	"slices"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
)

// SettingTree is an evaluated configuration with the origin of each value. Written as HCL, the tree has the same
// meaning as the configuration, but sensitive values are masked.
type SettingTree = config.Tree

// Settings returns the tree of a configuration. If defaults is true, the tree also contains settings with default
// values.
func Settings(cfg *config.Config, defaults bool) *SettingTree {
	masker := audit.New(slices.Concat(cfg.Audit.Secrets, cfg.Hidden()))
	return cfg.Tree(config.TreeOptions{Defaults: defaults, Mask: func(name, text string) string {
		if text != "" && audit.SecretName(name) {
			return audit.Mask
		}
		return masker.Whole(text)
	}})
}

// AddProfiles adds the default sandbox permissions of each plugin in cfg to the tree of cfg.
func AddProfiles(t *SettingTree, cfg *config.Config) error {
	var errs []error
	for _, n := range t.Blocks {
		if n.Type != "plugin" || len(n.Labels) == 0 {
			continue
		}
		if p := cfg.Plugin(n.Labels[0]); p != nil {
			errs = append(errs, addProfile(n, p))
		}
	}
	return errors.Join(errs...)
}

// addProfile adds a plugin's sandbox profile to its block.
func addProfile(n *config.TreeNode, p *config.Plugin) error {
	i := slices.IndexFunc(n.Blocks, func(b *config.TreeNode) bool { return b.Type == "sandbox" })
	if i < 0 {
		i = len(n.Blocks)
		n.Blocks = append(n.Blocks, &config.TreeNode{
			Type: "sandbox", From: config.Default, Values: []config.TreeValue{},
		})
	}
	prof := confinement.Profile(p)
	roots := "read-only"
	switch {
	case prof.NoRoots:
		roots = "none"
	case prof.WriteRoots:
		roots = "read-write"
	}
	var network any = prof.Network
	if !prof.Network && len(prof.Hosts) > 0 {
		network = prof.Hosts
	}
	var errs []error
	for _, d := range []struct {
		name  string
		value any
	}{{"roots", roots}, {"exec", prof.StartProcesses}, {"network", network}} {
		b := n.Blocks[i]
		if slices.ContainsFunc(b.Values, func(v config.TreeValue) bool { return v.Name == d.name }) {
			continue
		}
		v, err := config.NewTreeValue(d.name, d.value, config.Default)
		errs, b.Values = append(errs, err), append(b.Values, v)
	}
	return errors.Join(errs...)
}
