// Package help writes what a person or a model reads about the tools. It is the one
// place where help is made, from the schemas.
package help

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
)

// Result answers a command that asks for help.
func Result(r *registry.Registry, c *router.Command) *tool.Result {
	switch {
	case c.Name == "" && c.Namespace == "":
		return &tool.Result{Output: Overview(r)}
	case c.Name == "":
		return &tool.Result{Output: Namespace(r, c.Namespace, c.HelpVerbose)}
	}
	e := r.Lookup(c.Namespace, c.Name)
	if e == nil { // the router found it a moment ago
		return tool.Failed(tool.Errorf(tool.NotFound, "There is no tool %q any more.", c.Name).From(tool.SourceHost))
	}
	if !c.HelpVerbose {
		return &tool.Result{Output: Line(e)}
	}
	return &tool.Result{Output: Detail(e)}
}

// Line is "name: description", on one line.
func Line(e *registry.Entry) string {
	return name(e) + ": " + strings.Join(strings.Fields(e.Definition.Description), " ")
}

// name is what one types to call the tool.
func name(e *registry.Entry) string {
	if e.Namespace != "" {
		return "field:" + e.Namespace + " " + e.Definition.Name
	}
	return e.Definition.Name
}

// Overview lists all tools by layer.
func Overview(r *registry.Registry) string {
	var out strings.Builder
	out.WriteString("Agent tools (NAME -h, NAME --help for more):\n")
	for _, e := range r.All() {
		if e.Namespace == "" && e.Enabled {
			fmt.Fprintf(&out, "  %-12s %s\n", e.Definition.Name, summary(e))
		}
	}
	for _, ns := range r.Namespaces() {
		fmt.Fprintf(&out, "\nField tools (field:%s --help for more):\n", ns)
		for _, e := range r.All() {
			if e.Namespace == ns && e.Enabled {
				fmt.Fprintf(&out, "  %-12s %s\n", "field:"+ns+" "+e.Definition.Name, summary(e))
			}
		}
	}
	out.WriteString("\nAnything else is run by the shell: pipelines, redirects, go test ./..., git status.")
	return out.String()
}

// Namespace lists the commands of a field namespace.
func Namespace(r *registry.Registry, namespace string, verbose bool) string {
	var parts []string
	for _, e := range r.All() {
		if e.Namespace != namespace || !e.Enabled {
			continue
		}
		if verbose {
			parts = append(parts, usage(e)+"\n  "+summary(e))
		} else {
			parts = append(parts, Line(e))
		}
	}
	return strings.Join(parts, "\n")
}

// summary is the description's first sentence.
func summary(e *registry.Entry) string {
	text := strings.Join(strings.Fields(e.Definition.Description), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i+1]
	}
	return text
}

func usage(e *registry.Entry) string {
	out := "Usage: " + name(e)
	for _, p := range e.Schema.Params() {
		if p.Required {
			out += " <" + p.Name + ">"
		}
	}
	if slices.ContainsFunc(e.Schema.Params(), func(p *tool.Param) bool { return !p.Required }) {
		out += " [--parameter value …]"
	}
	return out
}

// Detail is everything there is to know to call the tool.
func Detail(e *registry.Entry) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n%s\n", usage(e), strings.TrimSpace(e.Definition.Description))
	if len(e.Schema.Params()) > 0 {
		out.WriteString("\nParameters:\n")
	}
	for _, p := range e.Schema.Params() {
		notes := []string{p.TypeName()}
		if p.Required {
			notes = append(notes, "required")
		}
		if p.Default != nil {
			notes = append(notes, "default "+plain(p.Default))
		}
		if p.Enum != nil {
			notes = append(notes, "one of "+strings.Join(p.EnumNames(), ", "))
		}
		fmt.Fprintf(&out, "  --%s (%s)\n", p.Name, strings.Join(notes, "; "))
		if p.Description != "" {
			fmt.Fprintf(&out, "      %s\n", strings.Join(strings.Fields(p.Description), " "))
		}
	}
	if p := e.Definition.StdinParameter; p != "" {
		fmt.Fprintf(&out, "\nA heredoc fills --%s.\n", p)
	}
	if len(e.Definition.Examples) > 0 {
		out.WriteString("\nExamples:\n")
		for _, x := range e.Definition.Examples {
			fmt.Fprintf(&out, "  %s\n", strings.ReplaceAll(x, "\n", "\n  "))
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
