package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/config/internal/schema"
	"toolhost.dev/host/internal/lazyregexp"
)

// Improve adds remedies to the diagnostics of HCL. It drops a diagnostic if it is only a consequence of another one.
// The argument "files" contains the parsed files. The argument "top" is the schema of their top level.
func Improve(diags hcl.Diagnostics, files []*hcl.File, top *schema.Block) hcl.Diagnostics {
	out := make(hcl.Diagnostics, 0, len(diags))
	for _, d := range diags {
		if strings.Contains(d.Detail, "value must be known") && len(diags) > 1 {
			continue
		}
		better := *d
		switch d.Summary {
		case "Unsupported attribute":
			unknownReference(&better)
		case "Unknown variable":
			unknownName(&better)
		case "Unsuitable value type":
			wrongType(&better)
		case "Invalid single-argument block definition", "Argument definition required":
			oneLine(&better, files)
		case "Unsupported block type", "Unsupported argument", "Extraneous JSON object property":
			unsupported(&better, files, top)
		}
		if strings.HasPrefix(d.Summary, "Missing ") && strings.Contains(d.Detail, " labels (") {
			missingLabel(&better)
		}
		better.Detail = otherPlace.ReplaceAllString(better.Detail, "$1:$2")
		out = append(out, &better)
	}
	return out
}

// otherPlace matches a second position in a message, in the notation of HCL.
var otherPlace = lazyregexp.New(`(\S+):(\d+),\d+-(?:\d+,)?\d+`)

// unknownReference explains a reference such as var.x or local.x to an undeclared name.
func unknownReference(d *hcl.Diagnostic) {
	if d.Expression == nil || d.EvalContext == nil {
		return
	}
	for _, t := range d.Expression.Variables() {
		root, attr := Reference(t)
		all, ok := d.EvalContext.Variables[root]
		if root != "var" && root != "local" || !ok || !all.Type().IsObjectType() || attr == "" ||
			all.Type().HasAttribute(attr) {
			continue
		}
		near := suggest.DidYouMean(attr, slices.Sorted(maps.Keys(all.Type().AttributeTypes())))
		d.Summary, d.Detail = fmt.Sprintf("There is no variable %q", attr),
			fmt.Sprintf("Declare it: variable %q {}.%s", attr, near)
		if root == "local" {
			d.Summary, d.Detail = fmt.Sprintf("There is no local %q", attr),
				fmt.Sprintf("Add it: locals { %s = … }.%s", attr, near)
		}
		return
	}
}

// unknownName explains an unknown word. Such a word is usually a text without quotes.
func unknownName(d *hcl.Diagnostic) {
	t, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
	if !ok || d.EvalContext == nil {
		return
	}
	name := t.Traversal.RootName()
	d.Summary = fmt.Sprintf("There is no %q", name)
	d.Detail = fmt.Sprintf("Put quotes around a text, and write a variable as var.NAME.%s", suggest.DidYouMean(name, slices.Sorted(maps.Keys(d.EvalContext.Variables))))
}

// forms contains, for each type, an explanation of how to write its values.
var forms = []struct{ needs, how string }{
	{"list of string", `Write a list of texts: ["a", "b"].`}, {"map of string", `Write texts by name: { NAME = "value" }.`},
	{"string", "Write a text in quotes."}, {"number", "Write a number."}, {"bool", "Write true or false."},
}

func wrongType(d *hcl.Diagnostic) {
	why := strings.TrimPrefix(d.Detail, "Unsuitable value: ")
	d.Summary = "The value is of the wrong type"
	d.Detail = Capital(why) + "."
	needs, _, _ := strings.Cut(why, ", but have ")
	for _, f := range forms {
		if strings.Contains(needs, f.needs) {
			d.Detail += " " + f.how
			return
		}
	}
}

// oneLine explains a block in one line that has more than one attribute, or a block. The detail has the block over
// several lines.
func oneLine(d *hcl.Diagnostic, files []*hcl.File) {
	i := slices.IndexFunc(files, func(f *hcl.File) bool {
		return f.Body.MissingItemRange().Filename == d.Subject.Filename
	})
	if i < 0 {
		return
	}
	lines := strings.Split(string(files[i].Bytes), "\n")
	if at := d.Subject.Start.Line; at > len(lines) || !strings.Contains(lines[at-1], "}") {
		return
	}
	d.Summary = "A block in one line has one attribute and no block"
	d.Detail = "Write it over several lines:\n" + severalLines(lines[d.Subject.Start.Line-1])
}

// severalLines writes the blocks of a line over several lines.
func severalLines(line string) string {
	src := []byte(strings.TrimSpace(line))
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos) // ignore the problems: the text is only an example
	var out strings.Builder
	value, depth, end := false, 0, 0 // whether an attribute has begun, the open brackets in its value, and the end of the last token
	for i, t := range tokens[:max(0, len(tokens)-1)] {
		next, gap := tokens[i+1].Type, string(src[end:t.Range.Start.Byte])
		before, after := gap, ""
		switch end = t.Range.End.Byte; {
		case depth > 0 &&
			slices.Contains([]hclsyntax.TokenType{hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
				hclsyntax.TokenTemplateSeqEnd}, t.Type):
			depth--
		case value &&
			slices.Contains([]hclsyntax.TokenType{hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
				hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl}, t.Type):
			depth++
		case depth > 0:
		case t.Type == hclsyntax.TokenEqual:
			value = true
		case t.Type == hclsyntax.TokenOBrace:
			after = "\n"
		case t.Type == hclsyntax.TokenCBrace:
			value, before, after = false, "\n", "\n"
		case t.Type == hclsyntax.TokenComma:
			value = false
			out.WriteString("\n")
			continue
		case value && t.Type == hclsyntax.TokenIdent && tokens[i-1].Type != hclsyntax.TokenEqual &&
			(next == hclsyntax.TokenEqual || next == hclsyntax.TokenOBrace):
			value, before = false, "\n"
		}
		out.WriteString(before + string(t.Bytes) + after)
	}
	text := manyNewlines.ReplaceAllString(out.String(), "\n")
	return strings.TrimSuffix(string(hclwrite.Format([]byte(text))), "\n")
}

var manyNewlines = lazyregexp.New(`\s*\n\s*`)

var labels = lazyregexp.New(`All (\S+) blocks must have .*\(([^)]*)\)`)

func missingLabel(d *hcl.Diagnostic) {
	if m := labels.FindStringSubmatch(d.Detail); m != nil {
		d.Detail = fmt.Sprintf("Write %s %q { … }.", m[1], strings.ToUpper(m[2]))
	}
}

var quoted = lazyregexp.New(`"([^"]+)"`)

// unsupported explains a name that is unknown in its block.
func unsupported(d *hcl.Diagnostic, files []*hcl.File, top *schema.Block) {
	m := quoted.FindStringSubmatch(d.Detail)
	if m == nil || d.Subject == nil || strings.Contains(d.Detail, "define a") { // keep the message if the name is written as an attribute but is a block, or vice versa
		return
	}
	in := around(*d.Subject, files, top)
	if in == nil {
		return
	}
	name, where := m[1], "in a configuration"
	if in.Path != "" {
		where = "in " + strings.ReplaceAll(in.Path, ".", " → ")
	}
	var known []string
	for _, b := range in.Blocks {
		known = append(known, b.Name)
	}
	if d.Summary != "Unsupported block type" {
		for _, a := range in.Attributes {
			known = append(known, a.Name)
		}
	}
	slices.Sort(known)
	d.Summary = fmt.Sprintf("There is no %q %s", name, where)
	switch near := suggest.DidYouMean(name, known); {
	case near != "":
		d.Detail = strings.TrimSpace(near)
	case in.Path != "" && top.Block(name) != nil:
		d.Detail = "That block stands by itself, outside of others."
	case len(known) == 0:
		d.Detail = "There are none."
	default:
		d.Detail = "There are: " + strings.Join(known, ", ") + "."
	}
}

// around returns the schema of the block that contains a position. It returns nil if the block is unknown.
func around(at hcl.Range, files []*hcl.File, top *schema.Block) *schema.Block {
	for _, f := range files {
		body, ok := f.Body.(*hclsyntax.Body)
		if !ok || body.SrcRange.Filename != at.Filename {
			continue
		}
		in := top
		for next := true; next && in != nil; {
			next = false
			for _, b := range body.Blocks {
				if b.OpenBraceRange.Start.Byte < at.Start.Byte && at.Start.Byte < b.CloseBraceRange.End.Byte {
					in, body, next = in.Block(b.Type), b.Body, true
					break
				}
			}
		}
		return in
	}
	return nil
}

// Reference returns the root name and the first attribute of a reference such as var.x.
func Reference(t hcl.Traversal) (root, attr string) {
	if len(t) > 1 {
		switch step := t[1].(type) {
		case hcl.TraverseAttr:
			attr = step.Name
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				attr = step.Key.AsString()
			}
		}
	}
	return t.RootName(), attr
}
