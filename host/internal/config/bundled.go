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

// bundledNames returns the names of the bundled plugins in dir whose manifests set a position, sorted by position.
// Plugins with an invalid manifest come last. They are included because the host must report their errors.
func bundledNames(dir string) []string {
	positions := make(map[string]int)
	var names []string
	for _, name := range manifest.BundledNames(dir) {
		m, err := manifest.ReadBundled(dir, name)
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
	for _, name := range bundledNames(d.env.BundledDir) {
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
	p := hclparse.NewParser() // use a separate parser, because a configuration file can have the same name as this source
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
	// block for the plugin. Such a block can lack a required permission.
	Network, Configured bool
	// Text is the message for a plugin from a registry that is not installed. It replaces the other messages.
	Text string
}

// Advice returns the message for a call of the tool while the plugin is not loaded. The message ends with the block that
// enables the plugin.
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
	for _, name := range manifest.BundledNames(d.env.BundledDir) {
		m := manifest.Offered(d.env.BundledDir, name)
		if m == nil || slices.Contains(d.cfg.Off, name) {
			continue
		}
		configured := d.runs(name) || slices.ContainsFunc(f.Plugins, func(p pluginHCL) bool { return p.Name == name })
		for _, t := range m.Tools {
			d.cfg.Offers = append(d.cfg.Offers, Offer{Tool: t, Plugin: name, Network: m.Needs.Network, Configured: configured})
		}
	}
}

// runs reports whether a configured plugin with another label serves the agent tools of the bundled plugin.
func (d *decoder) runs(name string) bool {
	return slices.ContainsFunc(d.cfg.Plugins, func(p Plugin) bool { return p.Bundled == name && p.Field == "" })
}

// warnTaken adds a warning for a field block with the name of a bundled plugin. The block replaces the bundled plugin.
func (d *decoder) warnTaken(f *fieldHCL) {
	d.cfg.Off = append(d.cfg.Off, f.Name)
	d.cfg.warnings = append(d.cfg.warnings, &hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: fmt.Sprintf("Field %q has the name of a bundled plugin, which is left out", f.Name), Subject: f.At.Ptr(),
		Detail: "Rename the field to use both, or set bundled = false.",
	})
}

// Relation returns the relation of a plugin to the bundled plugins. The result is empty if there is no such relation.
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
	case slices.Contains(manifest.BundledNames(c.bundledDir), name):
		return "replaces the bundled plugin"
	}
	return ""
}

// describe applies the manifest of a bundled plugin if p runs the program of this bundled plugin. The label of p does
// not matter. The argument "dir" is the directory of the bundled plugins. A broken manifest leads to an error, because
// the host must not run such a plugin.
func (p *Plugin) describe(dir string) error {
	name, m, err := manifest.Recognize(dir, p.Path)
	p.Bundled, p.Profile = name, m.Profile
	return err
}

// checkLabel adds a warning for a plugin with the label of a bundled plugin and another program. Such a plugin does not
// have the rights that its label suggests.
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
