package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config/internal/diagnose"
)

// Error lists all problems of an invalid configuration.
type Error = diagnose.Error

// Problem describes one mistake in a configuration.
type Problem = diagnose.Problem

type position = hcl.Range

// failed returns an error that lists the given problems of the configuration.
func (c *Config) failed(diags hcl.Diagnostics) *Error {
	diags = diagnose.Improve(diags, c.parsed, Schema())
	diagnose.Sort(diags)
	return &Error{Diags: diags, Files: c.files, Hide: c.hide}
}

// Warnings returns problems that do not prevent loading, such as deprecated names.
func (c *Config) Warnings() []Problem {
	e := Error{Diags: c.warnings, Files: c.files, Hide: c.hide}
	return e.List()
}

// format formats diagnostics as text and hides sensitive values.
func (c *Config) format(diags hcl.Diagnostics) string {
	return diagnose.Hide(diagnose.Format(diags, c.files), c.hide)
}

// bodyRanges maps each value in the "config" block of a plugin to its position in the file. With this position, the
// host can show the affected line for a problem that the plugin reports.
type bodyRanges map[string]hcl.Range

func pathKey(path []string) string { return strings.Join(path, "\x00") }

// At formats the problems that a plugin reports about its configuration. The text contains the lines of the operator's
// file.
func (c *Config) At(plugin string, diags []tool.Diagnostic) string {
	return c.format(c.located(plugin, diags))
}

// Rejected returns an error that contains the problems of a plugin's configuration. For their format, see [Config.At].
func (c *Config) Rejected(plugin string, diags []tool.Diagnostic) *Error {
	return c.failed(c.located(plugin, diags))
}

// located returns the problems of a plugin's configuration with their positions in the files.
func (c *Config) located(plugin string, diags []tool.Diagnostic) hcl.Diagnostics {
	i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == plugin })
	var out hcl.Diagnostics
	for _, d := range diags {
		diag := &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: fmt.Sprintf("Plugin %s: %s", plugin, d.Summary), Detail: d.Detail,
		}
		if d.Severity == tool.SeverityWarning {
			diag.Severity = hcl.DiagWarning
		}
		if i >= 0 && c.Plugins[i].at.Filename != "" { // a plugin without a block has no position in a file
			diag.Subject = c.Plugins[i].locate(d.Path).Ptr()
		}
		out = append(out, diag)
	}
	return out
}

// locate returns the position of a value in a plugin's "config" block. If the position is unknown, it returns the
// position of the nearest enclosing value.
func (p *Plugin) locate(path []string) hcl.Range {
	for n := len(path); n >= 0; n-- {
		if r, ok := p.config[pathKey(path[:n])]; ok {
			return r
		}
	}
	return p.at
}

// PluginPosition returns the position of a plugin's block as "file:line".
func (c *Config) PluginPosition(name string) string {
	for _, p := range c.Plugins {
		if p.Name == name && p.at.Filename != "" {
			return place(p.at)
		}
	}
	return ""
}

// UnusedTool returns an error about a "tool" block that applies to no tool. The argument "why" is the reason.
func (c *Config) UnusedTool(name string, why error) *Error {
	return c.failed(hcl.Diagnostics{
		diagnose.Problemf(c.Tools[name].at, fmt.Sprintf("The block tool %q has no effect", name), "%s", sentence(why)),
	})
}

// BadHooks returns an error with the problems of hooks. The keys of the map are the names of the hooks.
func (c *Config) BadHooks(problems map[string]error) error {
	var diags hcl.Diagnostics
	for name, why := range problems {
		diags = append(diags,
			diagnose.Problemf(c.lists["hook "+name], fmt.Sprintf("The hook %q cannot work", name), "%s", sentence(why)))
	}
	if len(diags) == 0 {
		return nil
	}
	return c.failed(diags)
}

// UnknownName returns the message for a list of names with an unknown name. The list belongs to a block of the given
// type.
func (c *Config) UnknownName(block, name string, why error) string {
	return c.format(hcl.Diagnostics{
		diagnose.Problemf(c.lists[block+" "+name], fmt.Sprintf("A name in the %s %q has no effect", block, name), "%s",
			sentence(why)),
	})
}

// UnusedFallback returns the message for a "tool" block whose fallback has no effect. The argument "why" is the reason.
func (c *Config) UnusedFallback(name string, why error) string {
	return c.format(hcl.Diagnostics{
		diagnose.Problemf(c.Tools[name].at, fmt.Sprintf("The fallback of tool %q has no effect", name), "%s",
			sentence(why)),
	})
}

// BadAlias returns the message for an alias that has no effect. The message contains the reason and the line of the
// operator's file.
func (c *Config) BadAlias(a Alias, why error) string {
	return c.format(hcl.Diagnostics{
		diagnose.Problemf(a.at, fmt.Sprintf("Alias %q has no effect", a.Name), "%s", diagnose.Capital(why.Error())+"."),
	})
}

// Unavailable returns an error about the variables of the environment and the files that are missing. Only the blocks
// that need them are refused. It returns nil if nothing is missing.
func (c *Config) Unavailable() error {
	if len(c.unavailable) == 0 {
		return nil
	}
	return c.failed(c.unavailable)
}

// MissingBinary returns an error that explains why the host cannot run a plugin's binary. It contains the line of the
// plugin's block.
func (c *Config) MissingBinary(p Plugin) error {
	return c.failed(hcl.Diagnostics{
		diagnose.Problemf(p.at, fmt.Sprintf("Plugin %q cannot be run", p.Name), "%s", sentence(errors.New(p.Missing))),
	})
}
