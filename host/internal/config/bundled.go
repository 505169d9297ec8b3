package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"

	"toolhost.dev/host/internal/manifest"
)

// bundledOrigin is the origin of bundled plugins that no block configures.
const bundledOrigin = "bundled"

// bundledNames returns the names of the bundled plugins whose manifests set a position, sorted by position. Plugins
// with an invalid manifest come last. They are included because the host must report their errors.
func bundledNames(dir *manifest.Directory) []string {
	positions := make(map[string]int)
	var names []string
	for _, name := range dir.Names() {
		m, err := dir.Bundled(name)
		if err != nil {
			m.Default = math.MaxInt
		}
		if m.Default > 0 {
			names, positions[name] = append(names, name), m.Default
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(positions[a], positions[b]) })
	return names
}

// defaultHCL returns the blocks of bundled plugins that no file configures.
func defaultHCL(names []string) []byte {
	var b strings.Builder
	b.WriteString("# The bundled plugins that no file configures: those whose manifest has a position in\n# the built-in configuration.\n")
	for _, name := range names {
		fmt.Fprintf(&b, "\nplugin %q {\n  optional = true\n}\n", name)
	}
	return []byte(b.String())
}

// addBundled adds the bundled plugins that no block configures. If the configuration contains bundled = false, it
// records these plugins as turned off.
func (d *decoder) addBundled(f *fileHCL) {
	d.addOffers(f)
	var names []string
	for _, name := range bundledNames(d.manifests) {
		switch {
		case slices.ContainsFunc(f.Plugins, func(p pluginHCL) bool { return p.Name == name }) || d.runs(name):
		case f.Bundled != nil && !*f.Bundled:
			d.cfg.Off = append(d.cfg.Off, name)
		default:
			if i := slices.IndexFunc(f.Fields, func(b fieldHCL) bool { return b.Name == name }); i >= 0 {
				d.warnTaken(&f.Fields[i])
				continue
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 && len(d.cfg.main) > 0 {
		return
	}
	p := hclparse.NewParser() // use a separate parser: a parser identifies sources by name, and a configuration file can have the same name
	file, diags := p.ParseHCL(defaultHCL(names), builtIn)
	d.add(diags)
	var added fileHCL
	d.add(gohcl.DecodeBody(file.Body, d.ctx, &added))
	for i := range added.Plugins {
		d.added = true
		d.plugin(&added.Plugins[i])
	}
	d.added = false
	d.cfg.parsed = append(slices.Clip(d.cfg.parsed), file)
	if !slices.Contains(d.cfg.main, builtIn) {
		d.bundled = file.Bytes
	}
}

// Offer is a tool of a bundled plugin that requires a block in the configuration.
type Offer struct {
	Tool, Plugin string
	// Network reports whether the plugin needs the network. Configured reports whether the configuration contains a
	// block for the plugin. Such a block permits the network only if it contains the setting "network".
	Network, Configured bool
	// Text is the message of a plugin that comes from a registry and is not installed. If it is set, Advice returns
	// only this text.
	Text string
}

// Advice returns the message for a call of the tool while its plugin is not loaded. The message ends with the block
// that the operator must add.
func (o *Offer) Advice() string {
	if o.Text != "" {
		return o.Text
	}
	if o.Network && o.Configured {
		return fmt.Sprintf("%s is off, because its plugin %s is not loaded; toolhost status tells why. It needs the network: the operator adds network = [\"*\"], or a list such as [\"go.dev\", \"*.python.org\"], to the sandbox block of plugin %q.", o.Tool, o.Plugin, o.Plugin)
	}
	if !o.Network {
		return fmt.Sprintf("The configuration does not use the bundled plugin %s, which serves %s. To turn it on, the operator adds this block:\nplugin %q {}", o.Plugin, o.Tool, o.Plugin)
	}
	return fmt.Sprintf("%s is off, because its plugin %s needs the network. To turn it on, the operator adds this block to the configuration. \"*\" permits every public host; a list such as [\"go.dev\", \"*.python.org\"] permits less.\n"+
		"plugin %q {\n  sandbox { network = [\"*\"] }\n}", o.Tool, o.Plugin, o.Plugin)
}

// addOffers adds the tools of the bundled plugins that require a block.
func (d *decoder) addOffers(f *fileHCL) {
	for _, name := range d.manifests.Names() {
		m := d.manifests.Offered(name)
		if m == nil || slices.Contains(d.cfg.Off, name) {
			continue
		}
		configured := d.runs(name) || slices.ContainsFunc(f.Plugins, func(p pluginHCL) bool { return p.Name == name })
		for _, t := range m.Tools {
			d.cfg.Offers = append(d.cfg.Offers, Offer{
				Tool: t, Plugin: name, Network: m.Needs.Network, Configured: configured,
			})
		}
	}
}

// runs reports whether a configured plugin, whatever its label is, runs the program of the bundled plugin and serves
// agent tools.
func (d *decoder) runs(name string) bool {
	return slices.ContainsFunc(d.cfg.Plugins, func(p Plugin) bool { return p.Bundled == name && p.Field == "" })
}

// warnTaken adds a warning for a field block that has the name of a bundled plugin. The field replaces the bundled
// plugin.
func (d *decoder) warnTaken(f *fieldHCL) {
	d.cfg.Off = append(d.cfg.Off, f.Name)
	d.cfg.warnings = append(d.cfg.warnings, &hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: fmt.Sprintf("Field %q has the name of a bundled plugin, and that plugin is left out", f.Name), Subject: f.At.Ptr(),
		Detail: "Rename the field to use both, or set bundled = false.",
	})
}

// Relation describes how a plugin relates to the bundled plugins. It returns "" for a plugin without such a relation.
func (c *Config) Relation(name string) string {
	p := c.Plugin(name)
	switch {
	case p == nil && slices.Contains(c.Off, name):
		return "turned off"
	case p == nil || p.Mounted || p.Bundled == functionPlugin:
		return ""
	case p.Added:
		return bundledOrigin
	case p.Bundled == p.Name:
		return "configures the bundled plugin"
	case p.Bundled != "":
		return "runs the bundled plugin " + p.Bundled
	case slices.Contains(manifest.OpenDirectory(c.bundledDir).Names(), name):
		return "replaces the bundled plugin"
	}
	return ""
}

// describe applies the manifest of a bundled plugin if p runs the program of this bundled plugin. The label of p does
// not matter. A broken manifest leads to an error, because the host must not run such a plugin.
func (p *Plugin) describe(bundled *manifest.Directory) error {
	name, m, err := bundled.Recognize(p.Path)
	p.Bundled, p.Profile = name, m.Profile
	return err
}

// checkLabel adds a warning if a plugin has the label of a bundled plugin but runs a different program. Such a plugin
// does not have the rights that its label suggests.
func (d *decoder) checkLabel(p *Plugin) {
	m, err := d.manifests.Bundled(p.Name)
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
