package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"toolhost.dev/sdk/tool"
)

// Same reports whether two configurations are equal: they were read from the same text, and find the
// same binaries and sandbox profiles.
func (c *Config) Same(other *Config) bool {
	return maps.EqualFunc(c.files, other.files, bytes.Equal) &&
		slices.EqualFunc(c.Plugins, other.Plugins, func(a, b Plugin) bool {
			return a.Name == b.Name && a.Missing == b.Missing && a.Path == b.Path && a.Profile == b.Profile
		})
}

// Blank reports whether there is nothing in its files: as a rule, somebody is writing them.
func (c *Config) Blank() bool {
	for _, name := range c.main {
		if len(bytes.TrimSpace(c.files[name])) > 0 {
			return false
		}
	}
	return true
}

// Keep takes in the optional plugins of other whose binaries are not there any more: one that
// is being built anew has not left the configuration.
func (c *Config) Keep(other *Config) {
	for i := len(c.absent) - 1; i >= 0; i-- {
		if had := other.Plugin(c.absent[i].Name); had != nil && c.absent[i].Path == had.Path {
			p := *had
			p.Missing = c.absent[i].Missing
			c.Plugins = slices.Insert(c.Plugins, c.absent[i].before, p)
		}
	}
}

// SameProcess reports whether a plugin's process is the same under two configurations, as far
// as they say: how it is run, what it is told and what it may touch.
func (c *Config) SameProcess(other *Config, name string) bool {
	a, b := c.Plugin(name), other.Plugin(name)
	if a == nil || b == nil {
		return false
	}
	x, y := *a, *b
	for _, p := range []*Plugin{&x, &y} { // where it stands, and what only the host does with it
		p.at, p.config, p.Missing = position{}, nil, ""
	}
	sandbox := func(s Sandbox) Sandbox { // without what is checked in the host
		s.Strict, s.Allow, s.Deny = false, nil, nil
		return s
	}
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(sandbox(c.Sandbox), sandbox(other.Sandbox))
}

// NewPlugin returns a plugin that is in no file of a configuration. bundledDir is as in [Environment].
func NewPlugin(name, path, bundledDir string) (Plugin, error) {
	if !tool.ValidName(name) {
		return Plugin{}, fmt.Errorf("%q cannot name a plugin: use lower-case letters, digits, '_', '-' and '.', beginning with a letter", name)
	}
	if !filepath.IsAbs(path) {
		return Plugin{}, fmt.Errorf("the path %q of plugin %s is not absolute", path, name)
	}
	p := Plugin{Name: name, Path: filepath.Clean(path), Missing: missing(path)}
	return p, p.describe(bundledDir)
}

// Plugin gives a plugin by its name; nil: there is none.
func (c *Config) Plugin(name string) *Plugin {
	i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Plugins[i]
}

// Files are those that it was read from: also values of variables, and what the function file gave.
func (c *Config) Files() []string { return slices.Sorted(maps.Keys(c.files)) }

// Binaries are the paths of all plugins, also of those that are left out.
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
