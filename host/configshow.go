package host

import (
	"errors"
	"slices"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
)

// ConfigTree is a configuration with its expressions evaluated, and where each value comes from.
// What is sensitive is not in it. Its HCL is a configuration that means the same, but for that.
type ConfigTree = config.Tree

// ShowConfig evaluates the configuration that opts name, without starting anything; with
// defaults, also what it says by saying nothing.
func ShowConfig(opts Options, defaults bool) (*ConfigTree, error) {
	cfg, err := opts.readConfig()
	if err != nil {
		return nil, err
	}
	tree := showConfig(cfg, defaults)
	if !defaults {
		return tree, nil
	}
	var errs []error
	for _, n := range tree.Blocks {
		if n.Type != "plugin" || len(n.Labels) == 0 {
			continue
		}
		if p := cfg.Plugin(n.Labels[0]); p != nil {
			errs = append(errs, showProfile(n, p))
		}
	}
	return tree, errors.Join(errs...)
}

func showConfig(cfg *config.Config, defaults bool) *ConfigTree {
	masker := audit.New(cfg.Audit.Secrets)
	return cfg.Tree(config.TreeOptions{Defaults: defaults, Mask: func(name, text string) string {
		if text != "" && audit.SecretName(name) {
			return audit.Mask
		}
		return masker.Whole(text)
	}})
}

// showProfile adds what a plugin may do by its name.
func showProfile(n *config.TreeNode, p *config.Plugin) error {
	i := slices.IndexFunc(n.Blocks, func(b *config.TreeNode) bool { return b.Type == "sandbox" })
	if i < 0 {
		i = len(n.Blocks)
		n.Blocks = append(n.Blocks, &config.TreeNode{Type: "sandbox", From: config.Default, Values: []config.TreeValue{}})
	}
	prof := profile(p)
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
