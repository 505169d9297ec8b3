// Package help creates the help texts of tools from their schemas, for people and models, and searches the definitions
// of tools.
//
// [Result] answers a command that asks for help. [Index.Search] ranks the tools of a registry by the words of a query.
// The index is in memory. It is built at the first search, and a later search updates it if the registry changed.
package help

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
)

// View is the part of a registry that a caller may see.
type View struct {
	Registry *registry.Registry
	// Allowed reports whether the caller may call a tool. Nil means that it may call all tools.
	Allowed func(*registry.Entry) bool
	// Outlook returns what the policy decides about calls of a tool. Nil leaves this out of the answers to searches.
	Outlook func(*registry.Entry) policy.Outlook
}

func (v View) allowed(e *registry.Entry) bool { return v.Allowed == nil || v.Allowed(e) }

// shown returns the enabled tools of a namespace that the caller may call.
func (v View) shown(namespace string) (out []*registry.Entry) {
	for _, e := range v.Registry.All() {
		if e.Namespace == namespace && e.Enabled && v.allowed(e) {
			out = append(out, e)
		}
	}
	return out
}

// Result returns the answer to a command that asks for help.
func Result(v View, c *router.Command) *tool.Result {
	switch {
	case c.Name == "" && c.Namespace == "":
		return &tool.Result{Output: v.overview()}
	case c.Name == "":
		return &tool.Result{Output: v.namespace(c.Namespace, c.HelpVerbose)}
	}
	r := v.Registry
	e := r.Lookup(c.Namespace, c.Name)
	if e == nil || !v.allowed(e) { // the router found the tool, so the caller may not call it
		return tool.Failed(tool.Errorf(tool.NotFound, "Tool %q is no longer available. Run help for a list.", c.Name).From(tool.SourceHost))
	}
	about := view{Entry: e}
	if a, ok := r.Aliases()[c.Alias]; ok {
		about.alias = &a
	}
	if !c.HelpVerbose {
		return &tool.Result{Output: about.line()}
	}
	return &tool.Result{Output: about.detail()}
}

// view describes a tool with the name in the command. This name is the tool's own name or an alias.
type view struct {
	*registry.Entry
	alias *registry.Alias // nil if the command contains the tool's own name
}

func (v *view) name() string {
	if v.alias != nil {
		return v.alias.Name
	}
	return name(v.Entry)
}

// param returns the name of a parameter in commands. An alias can define a different name.
func (v *view) param(p *tool.Param) string {
	if v.alias == nil {
		return p.Name
	}
	sig := tool.Signature{Names: v.alias.Params}
	return sig.NameOf(p.Name)
}

// line returns one line with the name and the description, separated by a colon.
func (v *view) line() string {
	return v.name() + ": " + strings.Join(strings.Fields(v.Definition.Description), " ")
}

// Line returns one line with the name and the description of a tool, separated by a colon.
func Line(e *registry.Entry) string { return (&view{Entry: e}).line() }

// name returns the text that users type to call the tool.
func name(e *registry.Entry) string {
	if e.Namespace != "" {
		return "field:" + e.Namespace + " " + e.Definition.Name
	}
	return e.Definition.Name
}

// overview lists all tools by layer.
func (v View) overview() string {
	var out strings.Builder
	out.WriteString("Agent tools (NAME -h, NAME --help for more):\n")
	for _, e := range v.shown("") {
		fmt.Fprintf(&out, "  %-12s %s\n", e.Definition.Name, summary(e))
	}
	for _, ns := range v.Registry.Namespaces() {
		tools := v.shown(ns)
		if len(tools) == 0 && v.Allowed != nil {
			continue
		}
		fmt.Fprintf(&out, "\nField tools (field:%s --help for more):\n", ns)
		for _, e := range tools {
			fmt.Fprintf(&out, "  %-12s %s\n", "field:"+ns+" "+e.Definition.Name, summary(e))
		}
	}
	out.WriteString(v.aliases())
	out.WriteString("\nAnything else is run by the shell: pipelines, redirects, go test ./..., git status.")
	return out.String()
}

// maxAliases limits the number of listed aliases of a tool. Agents know further aliases from other programs.
const maxAliases = 3

// aliases returns a list of the shortest aliases, grouped by tool.
func (v View) aliases() string {
	names := make(map[string][]string)
	for name, a := range v.Registry.Aliases() {
		names[a.Target()] = append(names[a.Target()], name)
	}
	var lines []string
	for _, e := range v.Registry.All() {
		if also := names[e.FullName()]; also != nil && e.Enabled && v.allowed(e) {
			slices.SortFunc(also, func(a, b string) int {
				return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
			})
			more := ""
			if n := len(also) - maxAliases; n > 0 {
				also, more = also[:maxAliases], fmt.Sprintf(" and %d more", n)
			}
			lines = append(lines, fmt.Sprintf("  %-12s %s%s\n", name(e), strings.Join(also, ", "), more))
		}
	}
	if lines == nil {
		return ""
	}
	return "\nOther names that are understood:\n" + strings.Join(lines, "")
}

// namespace lists the commands of a field namespace.
func (v View) namespace(namespace string, verbose bool) string {
	var parts []string
	for _, e := range v.shown(namespace) {
		if verbose {
			parts = append(parts, (&view{Entry: e}).usage()+"\n  "+summary(e))
		} else {
			parts = append(parts, Line(e))
		}
	}
	return strings.Join(parts, "\n")
}

// summary returns the first sentence of the description.
func summary(e *registry.Entry) string {
	text := strings.Join(strings.Fields(e.Definition.Description), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i+1]
	}
	return text
}

func (v *view) usage() string {
	out := "Usage: " + v.name()
	for _, p := range v.Shown() {
		if p.Required {
			out += " <" + v.param(p) + ">"
		}
	}
	if slices.ContainsFunc(v.Shown(), func(p *tool.Param) bool { return !p.Required }) {
		out += " [--parameter value …]"
	}
	return out
}

func (v *view) detail() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n%s\n", v.usage(), strings.TrimSpace(v.Definition.Description))
	if v.alias != nil {
		fmt.Fprintf(&out, "\n%s stands for %s, whose own parameter names work too.\n", v.alias.Name, name(v.Entry))
	}
	if len(v.Shown()) > 0 {
		out.WriteString("\nParameters:\n")
	}
	for _, p := range v.Shown() {
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
		fmt.Fprintf(&out, "  --%s (%s)\n", v.param(p), strings.Join(notes, "; "))
		if p.Description != "" {
			fmt.Fprintf(&out, "      %s\n", strings.Join(strings.Fields(p.Description), " "))
		}
	}
	if p := v.Schema().Param(v.Definition.StdinParameter); p != nil {
		fmt.Fprintf(&out, "\nA heredoc fills --%s.\n", v.param(p))
	}
	if len(v.Definition.Examples) > 0 {
		out.WriteString("\nExamples:\n")
		for _, x := range v.Definition.Examples {
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
