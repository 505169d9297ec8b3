package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// sources holds the text of the files read, by the name used in positions.
type sources map[string][]byte

type position = hcl.Range

// Error is a configuration that cannot be used: everything wrong with it.
type Error struct {
	diags hcl.Diagnostics
	files sources
	hide  []string
}

// failed is the error for a configuration with these problems, as they stand in its files.
func (c *Config) failed(diags hcl.Diagnostics) *Error {
	diags = c.improved(diags)
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		x, y := hcl.Range{}, hcl.Range{}
		if a.Subject != nil {
			x = *a.Subject
		}
		if b.Subject != nil {
			y = *b.Subject
		}
		return cmp.Or(strings.Compare(x.Filename, y.Filename), x.Start.Byte-y.Start.Byte)
	})
	return &Error{diags: diags, files: c.files, hide: c.hide}
}

// hidden stands for a value that is sensitive.
const hidden = "(sensitive)"

func hideIn(text string, values []string) string {
	for _, v := range values {
		text = strings.ReplaceAll(text, v, hidden)
	}
	return text
}

// format shows diagnostics, but nothing that is sensitive.
func (c *Config) format(diags hcl.Diagnostics) string { return hideIn(format(diags, c.files), c.hide) }

// Error gives every problem as "file:line:column: what. What to do.", with the line.
func (e *Error) Error() string { return hideIn(format(e.diags, e.files), e.hide) }

// Problem is one thing that is wrong.
type Problem struct {
	// Severity is "error" or "warning".
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	// File and what follows is where it stands, columns in characters; empty: in no file.
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
}

// List gives every problem, as the files go.
func (e *Error) List() []Problem {
	out := make([]Problem, 0, len(e.diags))
	for _, d := range e.diags {
		p := Problem{Severity: "error", Summary: hideIn(d.Summary, e.hide), Detail: hideIn(d.Detail, e.hide)}
		if d.Severity == hcl.DiagWarning {
			p.Severity = "warning"
		}
		if at := d.Subject; at != nil {
			p.File, p.Line, p.Column, p.EndLine, p.EndColumn = at.Filename, at.Start.Line, at.Start.Column, at.End.Line, at.End.Column
		}
		out = append(out, p)
	}
	return out
}

// Problems counts the errors, warnings aside.
func (e *Error) Problems() int { return len(e.diags.Errs()) }

func format(diags hcl.Diagnostics, files sources) string {
	var out strings.Builder
	for i, d := range diags {
		if i > 0 {
			out.WriteString("\n")
		}
		if d.Subject != nil {
			fmt.Fprintf(&out, "%s:%d:%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		if d.Severity == hcl.DiagWarning {
			out.WriteString("warning: ")
		}
		out.WriteString(strings.TrimSuffix(d.Summary, "."))
		if d.Detail != "" {
			out.WriteString(". " + d.Detail)
		}
		if d.Subject != nil {
			out.WriteString(snippet(files[d.Subject.Filename], *d.Subject))
		}
	}
	return out.String()
}

// snippet shows the line at fault with a mark under the place.
func snippet(src []byte, r hcl.Range) string {
	lines := bytes.Split(src, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return ""
	}
	line := strings.ToValidUTF8(string(bytes.TrimRight(lines[r.Start.Line-1], "\r")), "\uFFFD")
	line = strings.ReplaceAll(line, "\t", " ")
	if runes := []rune(line); len(runes) > 160 {
		line = string(runes[:160]) + "…"
	}
	width := 1
	if r.End.Line == r.Start.Line && r.End.Column > r.Start.Column {
		width = r.End.Column - r.Start.Column
	}
	start := min(r.Start.Column-1, 160)
	number := fmt.Sprintf("%4d", r.Start.Line)
	return fmt.Sprintf("\n%s | %s\n%s | %s%s", number, line, strings.Repeat(" ", len(number)),
		strings.Repeat(" ", start), strings.Repeat("^", min(width, max(1, 160-start))))
}

// problem makes an error diagnostic at a place.
func problem(at hcl.Range, summary, detail string, a ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, a...), Subject: at.Ptr()}
}

// bodyRanges remembers where the values of a plugin's config block stand, by their
// path, so that what the plugin says of a value is shown at the operator's line.
type bodyRanges map[string]hcl.Range

func pathKey(path []string) string { return strings.Join(path, "\x00") }

// At says what a plugin says of its configuration, at the operator's own lines.
func (c *Config) At(plugin string, diags []tool.Diagnostic) string {
	i := slices.IndexFunc(c.Plugins, func(p Plugin) bool { return p.Name == plugin })
	var out hcl.Diagnostics
	for _, d := range diags {
		diag := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf("Plugin %s: %s", plugin, d.Summary), Detail: d.Detail}
		if d.Severity == tool.SeverityWarning {
			diag.Severity = hcl.DiagWarning
		}
		if i >= 0 && c.Plugins[i].at.Filename != "" { // else it stands in no file
			diag.Subject = c.Plugins[i].locate(d.Path).Ptr()
		}
		out = append(out, diag)
	}
	return c.format(out)
}

// locate finds the nearest known range for a path into a plugin's config.
func (p *Plugin) locate(path []string) hcl.Range {
	for n := len(path); n >= 0; n-- {
		if r, ok := p.config[pathKey(path[:n])]; ok {
			return r
		}
	}
	return p.at
}

// PluginPosition gives "file:line" of a plugin's block.
func (c *Config) PluginPosition(name string) string {
	for _, p := range c.Plugins {
		if p.Name == name && p.at.Filename != "" {
			return place(p.at)
		}
	}
	return ""
}

// UnknownTool says that no tool answers to a tool block.
func (c *Config) UnknownTool(name string, known []string) string {
	return c.format(hcl.Diagnostics{problem(c.Tools[name].at, fmt.Sprintf("There is no tool %q", name),
		"The block has no effect.%s", suggest.DidYouMean(name, known))})
}

// UnknownFallback says that there is no tool of the name of a tool's fallback.
func (c *Config) UnknownFallback(name string, known []string) string {
	t := c.Tools[name]
	return c.format(hcl.Diagnostics{problem(t.at, fmt.Sprintf("There is no tool %q", t.Fallback),
		"The fallback of %s has no effect.%s", name, suggest.DidYouMean(t.Fallback, known))})
}

// BadAlias says, at the operator's line, why an alias has no effect.
func (c *Config) BadAlias(a Alias, why error) string {
	return c.format(hcl.Diagnostics{problem(a.at, fmt.Sprintf("Alias %q has no effect", a.Name), "%s", capital(why.Error())+".")})
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// MissingBinary says, at the operator's line, why a plugin's binary cannot be run.
func (c *Config) MissingBinary(p Plugin) error {
	return c.failed(hcl.Diagnostics{problem(p.at, fmt.Sprintf("Plugin %q cannot be run", p.Name), "%s", sentence(errors.New(p.Missing)))})
}
