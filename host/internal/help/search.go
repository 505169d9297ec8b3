package help

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
)

// Search answers a command that searches for tools.
func Search(index *Index, v View, s *router.Search) *tool.Result {
	if s.Namespace != "" && !slices.ContainsFunc(Namespaces(v.Registry, v.allowed),
		func(n Namespace) bool { return n.Name == s.Namespace }) {
		return tool.Failed(tool.Errorf(tool.NotFound, "There is no field namespace %q. Search without a namespace, or run help for a list.", s.Namespace).From(tool.SourceHost))
	}
	a := index.Search(v.Registry, v.allowed, Query{Words: s.Words, Namespace: s.Namespace, Limit: s.Limit})
	return &tool.Result{Output: Found(a, v.Outlook, s.Words, s.Schema)}
}

// maxShown limits the part of a query that a message repeats, in bytes.
const maxShown = 100

// Found returns the text of an answer. The text contains a command for each tool, as the caller would write it. With
// schema, it also contains the schemas of the arguments. If outlook is not nil, it returns what the policy decides
// about calls of a tool. Only decisions that a caller must know before a call are in the text.
func Found(a *Answer, outlook func(*registry.Entry) policy.Outlook, words string, schema bool) string {
	var out strings.Builder
	switch {
	case len(a.Hits) > 0:
		for _, h := range a.Hits {
			fmt.Fprintf(&out, "%s\n  %s\n", Command(h.Tool), short(summary(h.Tool)))
			if outlook != nil {
				out.WriteString(permission(outlook(h.Tool)))
			}
			if schema {
				fmt.Fprintf(&out, "  %s\n", compact(h.Tool.Definition.Input))
			}
			for _, m := range h.Matches {
				fmt.Fprintf(&out, "  %s: %s\n", m.In, strings.Join(m.Words, ", "))
			}
			if h.Matches != nil {
				fmt.Fprintf(&out, "  score: %.2f\n", h.Score)
			}
		}
		out.WriteString("Run such a line as a command. NAME --help describes the parameters; --json '{…}' takes all of them at once.")
	case len(a.Namespaces) == 0:
		out.WriteString("No tool matches. Run help for a list of the tools.")
	default:
		if strings.TrimSpace(words) == "" {
			out.WriteString("The namespaces of field tools:\n")
		} else {
			fmt.Fprintf(&out, "No tool matches %q. The nearest namespaces:\n", shorten(words, maxShown))
		}
		for _, n := range a.Namespaces {
			fmt.Fprintf(&out, "  %s\n", NamespaceLine(n))
		}
		fmt.Fprintf(&out, "List the tools of one: field:%s --help", a.Namespaces[0].Name)
	}
	return out.String()
}

// permission returns a line about what the policy decides about calls of a tool. It is empty if the calls are allowed.
func permission(o policy.Outlook) string {
	by := ""
	if o.Rule != "" {
		by = " (" + o.Rule + ")"
	}
	switch o.Effect {
	case policy.Ask:
		return fmt.Sprintf("  needs a permission: %s%s\n", short(o.Reason), by)
	case policy.Depends:
		return fmt.Sprintf("  its arguments decide about the permission: %s%s\n", short(o.Reason), by)
	case policy.Allow, policy.Deny: // a search does not find denied tools
	}
	return ""
}

// maxNamespaceLine limits the length of a line about a namespace, in bytes.
const maxNamespaceLine = 80

// NamespaceLine returns one line with the name of a namespace, its number of tools and the first names.
func NamespaceLine(n Namespace) string {
	return shorten(fmt.Sprintf("%s (%d): %s", n.Name, len(n.Tools), strings.Join(n.Tools, ", ")), maxNamespaceLine)
}

func shorten(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	cut := strings.ToValidUTF8(text[:most], "")
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = strings.TrimRight(cut[:i], ",")
	}
	return cut + " …"
}

// maxSummary limits the length of a description in an answer, in bytes.
const maxSummary = 160

func short(text string) string { return shorten(text, maxSummary) }

// maxOptional is the maximum number of optional parameters in a command.
const maxOptional = 6

// Command returns the command that calls a tool, with its parameters and their types.
func Command(e *registry.Entry) string {
	v := view{Entry: e}
	var required, optional []string
	for _, p := range v.Shown() {
		text := "--" + p.Name + " " + placeholder(p)
		if p.Required {
			required = append(required, text)
		} else {
			optional = append(optional, "["+text+"]")
		}
	}
	if n := len(optional) - maxOptional; n > 0 {
		optional = append(optional[:maxOptional], fmt.Sprintf("[%d more]", n))
	}
	return strings.Join(slices.Concat([]string{v.name()}, required, optional), " ")
}

// maxChoices is the maximum number of an enum's values in a command.
const maxChoices = 5

func placeholder(p *tool.Param) string {
	if p.Enum != nil && len(p.Enum) <= maxChoices {
		return "<" + strings.Join(p.EnumNames(), "|") + ">"
	}
	return "<" + p.TypeName() + ">"
}

func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil { // impossible, because registration parsed the schema
		return string(raw)
	}
	return out.String()
}
