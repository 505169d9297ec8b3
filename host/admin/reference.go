package admin

import (
	"fmt"
	"strings"

	"toolhost.dev/host/internal/config"
)

// Reference returns the reference of the configuration language as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Reference of the configuration\n\nMade by `make generate`; what it means is in [configuration.md](../configuration.md) and [operators.md](../operators.md), examples are in [config.hcl](../../config.hcl).\n\n" +
		"A duration is text such as `\"90s\"` or `\"14d\"`, a size text such as `\"64MiB\"`. A default in parentheses depends on other settings. " +
		"A key with an entry under *permits more* restricts tools: a change to a higher value, a longer list, or as the entry says, is an [increase of privileges](../operators/swaps.md).\n")
	blocks(&b, config.Schema())
	b.WriteString("\n## Functions\n\n| function | what |\n|---|---|\n")
	for _, f := range config.Functions() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Signature, cell(f.Doc))
	}
	return b.String()
}

func blocks(b *strings.Builder, in *config.Block) {
	if in.Path == "" {
		b.WriteString("\n## Outside of blocks\n")
		attributes(b, in)
	}
	for _, block := range in.Blocks {
		head := strings.ReplaceAll(block.Path, ".", " → ")
		for _, l := range block.Labels {
			head += fmt.Sprintf(" \"%s\"", strings.ToUpper(l))
		}
		fmt.Fprintf(b, "\n## %s\n\n%s", head, block.Doc)
		if block.Repeats && len(block.Labels) == 0 {
			b.WriteString(" There may be several.")
		}
		b.WriteString("\n")
		attributes(b, block)
		blocks(b, block)
	}
}

func attributes(b *strings.Builder, block *config.Block) {
	if len(block.Attributes) > 0 {
		b.WriteString("\n| attribute | type | default | permits more | what |\n|---|---|---|---|---|\n")
	}
	for _, a := range block.Attributes {
		def := a.Default
		switch {
		case a.Required || a.Needed:
			def = "**required**"
		case def != "" && !strings.HasPrefix(def, "("):
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", a.Name, a.Type, cell(def), a.Wider(), cell(a.Doc))
	}
}

func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}
