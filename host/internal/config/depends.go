package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"
)

// dependencies reports plugins that depend on themselves or on an unknown plugin. The argument "at" maps each plugin to
// the position of its attribute "depends_on".
func (d *decoder) dependencies(at map[string]hcl.Range) {
	c := d.cfg
	var known []string
	for _, p := range c.Plugins {
		known = append(known, p.Name)
	}
	for i := range c.Plugins {
		p := &c.Plugins[i]
		for _, name := range p.DependsOn {
			if c.Plugin(name) != nil {
				continue
			}
			k := slices.IndexFunc(c.absent, func(a absentPlugin) bool { return a.Name == name })
			switch {
			case slices.Contains(c.Off, name):
				d.fail(at[p.Name], fmt.Sprintf("Plugin %q depends on %q, which is turned off", p.Name, name), "Remove enabled = false from plugin %q or bundled = false, or take it out of depends_on.", name)
			case k < 0:
				d.fail(at[p.Name], fmt.Sprintf("Plugin %q depends on %q, which is not configured", p.Name, name), "Add a block plugin %q, or take it out of depends_on.%s", name, suggest.DidYouMean(name, known))
			case p.Missing == "":
				p.Missing = fmt.Sprintf("it depends on plugin %s, which is left out: %s", name, c.absent[k].Missing)
			}
		}
	}
	told := make(map[string]bool)
	for _, p := range c.Plugins {
		if cycle := c.cycle(p.Name, nil); cycle != nil && !told[p.Name] {
			for _, name := range cycle {
				told[name] = true
			}
			d.fail(at[p.Name], fmt.Sprintf("Plugin %q depends on itself", p.Name), "The cycle is %s. Remove one of these plugins from depends_on.",
				strings.Join(append(cycle, p.Name), " → "))
		}
	}
}

// cycle searches for a plugin that depends on itself, possibly through other plugins. It returns the names of the
// plugins in the cycle, starting with the first element of path. Without a cycle, it returns nil.
func (c *Config) cycle(name string, path []string) []string {
	if len(path) > 0 && name == path[0] {
		return path
	}
	p := c.Plugin(name)
	if p == nil || slices.Contains(path, name) {
		return nil
	}
	path = append(slices.Clone(path), name)
	for _, on := range p.DependsOn {
		if way := c.cycle(on, path); way != nil {
			return way
		}
	}
	return nil
}
