package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

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

// describe applies the manifest of the bundled plugin with the same name, if dir contains this plugin. It returns an
// error for an invalid manifest, because the host must not run such a plugin.
func (p *Plugin) describe(dir string) error {
	m, err := manifest.ReadBundled(dir, p.Name)
	p.Profile = m.Profile
	return err
}
