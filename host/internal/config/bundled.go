package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"toolhost.dev/host/internal/manifest"
)

// defaultHCL returns the configuration of a host that has none: the bundled plugins in dir whose manifests set a position,
// in that order, and the workspace as the only root. Plugins with a broken manifest come last, so that the error is reported.
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

// describe adds the values of the manifest of the bundled plugin with the same name, if there is one in dir.
// The host must not run a plugin whose manifest is broken.
func (p *Plugin) describe(dir string) error {
	m, err := manifest.ReadBundled(dir, p.Name)
	p.Profile = m.Profile
	return err
}
