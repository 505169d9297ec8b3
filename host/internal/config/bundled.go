package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/manifest"
)

// defaultHCL returns the built-in configuration. It contains all bundled plugins in dir whose manifests set a position,
// in the order of the positions. The workspace is the only root. Plugins with an invalid manifest come last, so that the
// host reports their errors.
func defaultHCL(dir string) []byte {
	type plugin struct {
		name     string
		position int
	}
	var plugins []plugin
	for _, name := range manifest.BundledNames(dir) {
		m, err := manifest.ReadBundled(dir, name)
		if err != nil {
			m.Default = math.MaxInt
		}
		if m.Default > 0 {
			plugins = append(plugins, plugin{name, m.Default})
		}
	}
	slices.SortStableFunc(plugins, func(a, b plugin) int { return cmp.Compare(a.position, b.position) })
	var b strings.Builder
	b.WriteString("# The configuration of a host without one: the bundled plugins whose manifest has a\n# position in it, and the workspace as the only root.\n")
	for _, p := range plugins {
		fmt.Fprintf(&b, "\nplugin %q {\n  optional = true\n}\n", p.name)
	}
	return []byte(b.String())
}

// describe applies the manifest of the bundled plugin whose program the plugin runs, whatever its label is. dir is the
// directory of the bundled plugins. It returns an error for a broken manifest, because the host must not run such a
// plugin.
func (p *Plugin) describe(dir string) error {
	name, m, err := manifest.Recognize(dir, p.Path)
	p.Bundled, p.Profile = name, m.Profile
	return err
}

// checkLabel adds a warning for a plugin that has the label of a bundled plugin but runs another program. Such a plugin
// does not have the rights that its label suggests.
func (d *decoder) checkLabel(p *Plugin) {
	m, err := manifest.ReadBundled(d.env.BundledDir, p.Name)
	if err != nil || m == (manifest.Bundled{}) || p.Bundled == p.Name || p.Missing != "" {
		return
	}
	what := "which is not a bundled plugin: it may work on files in the roots and nothing else"
	if p.Bundled != "" {
		what = fmt.Sprintf("which is the bundled plugin %s and has its rights", p.Bundled)
	}
	d.cfg.warnings = append(d.cfg.warnings, &hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: fmt.Sprintf("Plugin %q is not the bundled plugin of this name", p.Name), Subject: p.at.Ptr(),
		Detail: fmt.Sprintf("It runs %s, %s. Grant what else it needs in its sandbox block, such as exec = true, or remove path to run the bundled plugin.", p.Path, what),
	})
}
