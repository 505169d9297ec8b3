package develop

import (
	"encoding/json"
	"fmt"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Docs returns the documentation of a plugin in Markdown: its tools, the block that an operator writes, and what it
// needs.
func Docs(d *tool.Description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nVersion %s, a plugin for toolhost.", d.Name, d.Version)
	if d.MinHostVersion != "" {
		fmt.Fprintf(&b, " It works with toolhost %s and later.", d.MinHostVersion)
	}
	b.WriteString("\n\n## Tools\n")
	for i := range d.Tools {
		toolDocs(&b, &d.Tools[i])
	}
	if len(d.Tools) == 0 {
		b.WriteString("\nThe plugin learns its tools from its configuration.\n")
	}
	b.WriteString("\n## Configuration\n\n```hcl\n" + block(d) + "```\n")
	parameters(&b, "Attribute", d.ConfigSchema)
	needs(&b, d.Needs)
	return b.String()
}

func toolDocs(b *strings.Builder, d *tool.Definition) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", d.Name, strings.TrimSpace(d.Description))
	if d.Deprecated != "" {
		fmt.Fprintf(b, "\n**Deprecated.** %s\n", d.Deprecated)
	}
	var traits []string
	for _, t := range []struct {
		is   bool
		text string
	}{
		{d.Traits.ReadOnly, "read-only"}, {!d.Traits.ReadOnly, "changes something"}, {d.Traits.Dangerous, "asks before each call"}, {d.Traits.Idempotent, "idempotent"},
		{d.Traits.Disabled, "off until an operator enables it"},
	} {
		if t.is {
			traits = append(traits, t.text)
		}
	}
	fmt.Fprintf(b, "\nTraits: %s.\n", strings.Join(traits, ", "))
	parameters(b, "Parameter", d.Input)
	if len(d.Output) > 0 {
		b.WriteString("\nStructured output:\n")
		parameters(b, "Property", d.Output)
	}
	if len(d.Examples) > 0 {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.Join(d.Examples, "\n"))
	}
}

// parameters writes the properties of a schema as a table. It writes nothing for a schema without properties.
func parameters(b *strings.Builder, title string, raw json.RawMessage) {
	s, err := tool.ParseSchema(raw)
	if err != nil || len(s.Params()) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | Type | Default | Meaning |\n|---|---|---|---|\n", title)
	for _, p := range s.Params() {
		if p.Hidden {
			continue
		}
		value := "`" + string(p.Default) + "`"
		switch {
		case p.Required:
			value = "required"
		case p.Default == nil:
			value = ""
		}
		meaning := cell(p.Description)
		if p.Enum != nil {
			meaning = strings.TrimSpace(meaning + " One of " + strings.Join(p.EnumNames(), ", ") + ".")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, cell(p.TypeName()), cell(value), cell(meaning))
	}
}

// cell returns a text that stays in one cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}

// block returns the block that an operator adds to the configuration.
func block(d *tool.Description) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %q {\n  path = \"./%s\"\n", d.Name, d.Name)
	if n := d.Needs; n != nil {
		for _, s := range n.Secrets {
			if s.Need == tool.Required {
				fmt.Fprintf(&b, "  env  = { %s = env(%q) }\n", s.Name, s.Name)
			}
		}
		var lines []string
		if n.Exec == tool.Required {
			lines = append(lines, "exec = true")
		}
		if n.Network == tool.Required {
			lines = append(lines, "network = true")
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "  sandbox {\n    %s\n  }\n", strings.Join(lines, "\n    "))
		}
	}
	if s, err := tool.ParseSchema(d.ConfigSchema); err == nil {
		var lines []string
		for _, p := range s.Params() {
			if p.Required {
				lines = append(lines, fmt.Sprintf("    %s = # %s", p.Name, p.TypeName()))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "  config {\n%s\n  }\n", strings.Join(lines, "\n"))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

func needs(b *strings.Builder, n *tool.Needs) {
	b.WriteString("\n## Needs\n\n")
	if n == nil {
		b.WriteString("The plugin does not declare what it needs.\n")
		return
	}
	var lines []string
	for _, need := range []struct {
		of   tool.Need
		text string
	}{{n.Read, "read files of the workspace"}, {n.Write, "write files of the workspace"}, {n.Exec, "start programs"},
		{n.Network, "the network"}} {
		if need.of != tool.NotNeeded {
			lines = append(lines, fmt.Sprintf("- %s (%s)", need.text, need.of))
		}
	}
	for _, s := range n.Secrets {
		lines = append(lines, fmt.Sprintf("- the secret `%s` in its environment (%s)", s.Name, s.Need))
	}
	if len(lines) == 0 {
		lines = []string{"Nothing beside its own state directory."}
	}
	b.WriteString(strings.Join(lines, "\n") + "\n")
}
