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

// Blank reports whether the files are empty. Usually somebody is writing them.
func (c *Config) Blank() bool {
	for _, name := range c.main {
		if len(bytes.TrimSpace(c.files[name])) > 0 {
			return false
		}
	}
	return true
}

// Keep adds the optional plugins of other whose binaries are missing now: a binary that is being rebuilt stays in the
// configuration.
func (c *Config) Keep(other *Config) {
	for i := len(c.absent) - 1; i >= 0; i-- {
		if had := other.Plugin(c.absent[i].Name); had != nil && c.absent[i].Path == had.Path {
			p := *had
			p.Missing = c.absent[i].Missing
			c.Plugins = slices.Insert(c.Plugins, c.absent[i].before, p)
		}
	}
}

// SameProcess reports whether a plugin runs in the same way under both configurations: the same command, the same
// configuration and the same sandbox.
func (c *Config) SameProcess(other *Config, name string) bool {
	a, b := c.Plugin(name), other.Plugin(name)
	if a == nil || b == nil {
		return false
	}
	x, y := *a, *b
	for _, p := range []*Plugin{&x, &y} { // ignore positions, and what only the host uses
		p.at, p.config, p.Missing = position{}, nil, ""
	}
	sandbox := func(s Sandbox) Sandbox { // without what the host checks
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

// Plugin returns a plugin by name, or nil.
func (c *Config) Plugin(name string) *Plugin {
	i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Plugins[i]
}

// Files lists the files that the configuration was read from, including values of variables and files that the function
// file read.
func (c *Config) Files() []string { return slices.Sorted(maps.Keys(c.files)) }

// Binaries lists the paths of all plugins, including those that are left out.
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
