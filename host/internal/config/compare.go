package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/sdk/tool"
)

// Same reports whether two configurations are equal. They are equal if the host read them from the same text, and if
// their binaries and sandbox profiles are the same. A restricted configuration is only equal to one with the same
// restrictions.
func (c *Config) Same(other *Config) bool {
	return slices.Equal(c.Restricted, other.Restricted) && maps.EqualFunc(c.files, other.files, bytes.Equal) &&
		maps.Equal(c.copies, other.copies) &&
		slices.EqualFunc(c.Plugins, other.Plugins, func(a, b Plugin) bool {
			return a.Name == b.Name && a.Missing == b.Missing && a.Refused == b.Refused && a.Path == b.Path &&
				a.Profile == b.Profile && a.Bundled == b.Bundled
		}) &&
		slices.EqualFunc(c.Hooks, other.Hooks, func(a, b Hook) bool { return a.Refused == b.Refused })
}

// Sources returns the text of each file from which the host read the configuration, by its path.
func (c *Config) Sources() map[string][]byte {
	out := maps.Clone(c.files)
	maps.DeleteFunc(out, func(name string, _ []byte) bool { return c.generated(name) })
	return out
}

// Blank reports whether all configuration files are empty. An editor can leave a file empty for a moment while it saves
// the file.
func (c *Config) Blank() bool {
	for _, name := range c.main {
		if len(bytes.TrimSpace(c.files[name])) > 0 {
			return false
		}
	}
	return len(c.main) > 0
}

// Keep copies optional plugins from another configuration if their binaries do not exist at the moment. Therefore a
// plugin stays in the configuration while somebody builds its binary again.
func (c *Config) Keep(other *Config) {
	for i := len(c.absent) - 1; i >= 0; i-- {
		if had := other.Plugin(c.absent[i].Name); had != nil && c.absent[i].Path == had.Path {
			p := *had
			p.Missing = c.absent[i].Missing
			c.Plugins = slices.Insert(c.Plugins, c.absent[i].before, p)
		}
	}
}

// SameProcess reports whether a plugin has the same command, settings and sandbox in both configurations.
func (c *Config) SameProcess(other *Config, name string) bool {
	return c.sameProcess(other, name, false)
}

// OtherVersion reports whether a plugin from a registry differs between the two configurations only in its version.
func (c *Config) OtherVersion(other *Config, name string) bool {
	p := c.Plugin(name)
	return p != nil && p.Source != "" && !c.sameProcess(other, name, false) && c.sameProcess(other, name, true)
}

func (c *Config) sameProcess(other *Config, name string, anyPath bool) bool {
	a, b := c.Plugin(name), other.Plugin(name)
	if a == nil || b == nil {
		return false
	}
	x, y := *a, *b
	if anyPath {
		y.Path = x.Path
	}
	for _, p := range []*Plugin{&x, &y} { // ignore positions and fields that only the host uses
		*p = pluginTable.withoutHostOnly(*p)
		p.at, p.config, p.Missing, p.Refused, p.Rollout = position{}, nil, "", "", nil
	}
	if !x.Mounted && c.Retention.Ages() != other.Retention.Ages() { // a mounted server keeps no such files
		return false
	}
	return reflect.DeepEqual(x, y) &&
		reflect.DeepEqual(sandboxTable.withoutHostOnly(c.Sandbox), sandboxTable.withoutHostOnly(other.Sandbox)) &&
		reflect.DeepEqual(c.Permissions.Paths, other.Permissions.Paths) &&
		reflect.DeepEqual(c.Permissions.executable(), other.Permissions.executable())
}

// executable returns the settings that determine which programs can be executed. It returns nil if all programs can be
// executed.
func (p *Permissions) executable() any {
	if !p.AllowList && !p.Programs.Listed {
		return nil
	}
	return []any{p.Rules, p.Programs}
}

// NewPlugin returns a plugin without a block in a configuration file. bundledDir is the directory of the bundled
// plugins, as in [Environment].
func NewPlugin(name, path, bundledDir string) (Plugin, error) {
	if !tool.ValidName(name) {
		return Plugin{}, fmt.Errorf("%q cannot name a plugin: use lower-case letters, digits, '_', '-' and '.', beginning with a letter", name)
	}
	if !filepath.IsAbs(path) {
		return Plugin{}, fmt.Errorf("the path %q of plugin %s is not absolute", path, name)
	}
	p := Plugin{Name: name, Path: filepath.Clean(path), Missing: missing(path)}
	return p, p.describe(manifest.OpenDirectory(bundledDir))
}

// Plugin returns the plugin with the given name. It returns nil for an unknown name.
func (c *Config) Plugin(name string) *Plugin {
	i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Plugins[i]
}

// Files lists the files from which the host read the configuration. The list includes files with values of variables
// and files that the function "file" read.
func (c *Config) Files() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.files)), c.generated)
}

// generated reports whether name is the pseudo file with the blocks of bundled plugins.
func (c *Config) generated(name string) bool {
	return name == builtIn && !slices.Contains(c.main, name)
}

// Binaries lists the paths of the binaries of all plugins, including optional plugins whose binaries are missing.
func (c *Config) Binaries() []string {
	var out []string
	for _, p := range c.Plugins {
		out = append(out, p.Path)
	}
	for _, p := range c.absent {
		out = append(out, p.Path)
	}
	return out
}

// Sourced returns the plugins with a source, including optional plugins that are not installed.
func (c *Config) Sourced() []Plugin {
	var out []Plugin
	for _, p := range c.Plugins {
		if p.Source != "" {
			out = append(out, p)
		}
	}
	for _, p := range c.absent {
		if p.Source != "" {
			out = append(out, p.Plugin)
		}
	}
	return out
}
