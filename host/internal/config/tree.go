package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/config/internal/schema"
)

// Tree is an evaluated configuration, with the origin of each value.
type Tree struct {
	Source    string      `json:"config"`
	Variables []TreeValue `json:"variables"`
	// Values are the settings outside of blocks.
	Values []TreeValue `json:"attributes,omitempty"`
	Blocks []*TreeNode `json:"blocks"`
}

// TreeNode is an evaluated block.
type TreeNode struct {
	Type   string   `json:"type"`
	Labels []string `json:"labels,omitempty"`
	From   string   `json:"from"`
	// Note describes the relation of a plugin block to the bundled plugins.
	Note   string      `json:"note,omitempty"`
	Values []TreeValue `json:"attributes"`
	Blocks []*TreeNode `json:"blocks,omitempty"`
}

// TreeValue is an evaluated attribute or variable.
type TreeValue struct {
	Name string `json:"name"`
	// Value is the value as JSON, with sensitive parts masked.
	Value json.RawMessage `json:"value"`
	// From is the origin of the value, such as "file:line" or "default".
	From string `json:"from"`
	// Sensitive reports whether a part of the value is masked.
	Sensitive bool `json:"sensitive,omitempty"`

	value, whole cty.Value // whole is the value with sensitive parts unmasked
}

// Same reports whether two values are equal. It also compares their sensitive parts.
func (v *TreeValue) Same(other *TreeValue) bool { return v.whole.RawEquals(other.whole) }

// HCL returns the value as an HCL expression.
func (v *TreeValue) HCL() string {
	return strings.Join(strings.Fields(string(hclwrite.TokensForValue(v.value).Bytes())), " ")
}

// Default is the origin of values that are not set.
const Default = "default"

// TreeOptions configures the content of a tree.
type TreeOptions struct {
	// Defaults reports whether the tree contains settings that have their default value.
	Defaults bool
	// Mask returns a replacement for a text. The argument "name" is the attribute or key that contains the text.
	Mask func(name, text string) string
}

// forest builds trees from the files of a configuration.
type forest struct {
	*Config
	TreeOptions
	d *decoder
}

// Tree evaluates the configuration again and returns the settings tree.
func (c *Config) Tree(opts TreeOptions) *Tree {
	f := &forest{Config: c, TreeOptions: opts, d: &decoder{ctx: c.ctx, dir: c.dir, cfg: c}}
	out := &Tree{Source: c.Source, Variables: []TreeValue{}, Blocks: []*TreeNode{}}
	for _, name := range slices.Sorted(maps.Keys(c.from)) {
		value := c.ctx.Variables["var"].GetAttr(name)
		if c.sensitive["var."+name] {
			value = concealed(value)
		}
		v := f.value(name, value, nil, c.from[name])
		v.Sensitive = v.Sensitive || c.sensitive["var."+name]
		out.Variables = append(out.Variables, v)
	}
	top := f.node(Schema(), "", nil, hcl.MergeFiles(c.parsed), "")
	out.Values = top.Values
	out.Blocks = append(out.Blocks, top.Blocks...)
	return out
}

// node evaluates a block.
func (f *forest) node(s *Block, name string, labels []string, body hcl.Body, from string) *TreeNode {
	n := &TreeNode{Type: name, Labels: labels, From: from, Values: []TreeValue{}}
	if s.Free {
		f.free(n, s.Path, body)
		return n
	}
	content, _, _ := body.PartialContent(s.Content()) // ignore the error: the body was already decoded without errors
	if content == nil {
		return n
	}
	for _, a := range inOrder(content.Attributes) {
		f.add(n, s.Attribute(a.Name), a)
	}
	if f.Defaults {
		f.defaults(n, s, content.Attributes)
	}
	for _, b := range content.Blocks {
		if s.Path == "" && (b.Type == "variable" || b.Type == "locals") {
			continue // variables and locals are already evaluated
		}
		labels := b.Labels
		if s.Path+"."+b.Type == "sandbox.root" {
			labels = []string{f.d.path(labels[0])}
		}
		inner := f.node(s.Block(b.Type), b.Type, labels, b.Body, f.place(b.DefRange))
		if s.Path+"."+b.Type == ".plugin" {
			inner.Note = f.Relation(labels[0])
		}
		n.Blocks = append(n.Blocks, inner)
	}
	if f.Defaults {
		f.defaultBlocks(n, s)
	}
	return n
}

// place returns the origin of a value. The origin is "file:line", or "bundled" for a bundled plugin without a block.
func (f *forest) place(at position) string {
	if f.generated(at.Filename) {
		return bundledOrigin
	}
	return place(at)
}

// filledIn lists the blocks whose default values apply even if no file contains the block.
var filledIn = []string{"host", "sandbox", "reload", "permissions", "audit", "plugin.restart"}

func (f *forest) defaultBlocks(n *TreeNode, s *Block) {
	for _, inner := range s.Blocks {
		has := slices.ContainsFunc(n.Blocks, func(b *TreeNode) bool { return b.Type == inner.Name })
		if !has && slices.Contains(filledIn, inner.Path) {
			n.Blocks = append(n.Blocks, f.node(inner, inner.Name, nil, hcl.EmptyBody(), Default))
		}
	}
}

// defaults adds default values for the settings that no file contains.
func (f *forest) defaults(n *TreeNode, s *Block, given hcl.Attributes) {
	for _, a := range s.Attributes {
		if given[a.Name] != nil || a.Default == "" {
			continue
		}
		if p := f.Plugin(cmp.Or(slices.Concat(n.Labels, []string{""})...)); s.Path == "plugin" &&
			a.Name == "path" && p != nil {
			n.Values = append(n.Values, f.value(a.Name, cty.StringVal(p.Path), nil, Default))
			continue
		}
		expr, diags := hclsyntax.ParseExpression([]byte(a.Default), Default, hcl.InitialPos)
		if diags.HasErrors() || strings.HasPrefix(a.Default, "(") {
			continue
		}
		value, diags := expr.Value(nil)
		if !diags.HasErrors() {
			n.Values = append(n.Values, f.value(a.Name, value, nil, Default))
		}
	}
}

// free evaluates a block with a schema that the host does not know.
func (f *forest) free(n *TreeNode, path string, body hcl.Body) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		attrs, _ := body.JustAttributes()
		for _, a := range inOrder(attrs) {
			f.add(n, withoutTable[path+"."+a.Name], a)
		}
		return
	}
	attrs := make(hcl.Attributes)
	for name, a := range native.Attributes {
		attrs[name] = a.AsHCLAttribute()
	}
	for _, a := range inOrder(attrs) {
		f.add(n, withoutTable[path+"."+a.Name], a)
	}
	for _, b := range native.Blocks {
		inner := &TreeNode{Type: b.Type, Labels: b.Labels, From: f.place(b.DefRange()), Values: []TreeValue{}}
		f.free(inner, path, b.Body)
		n.Blocks = append(n.Blocks, inner)
	}
}

func (f *forest) add(n *TreeNode, is schema.Attribute, a *hcl.Attribute) {
	value, diags := a.Expr.Value(f.d.ctx)
	if diags.HasErrors() || !value.IsWhollyKnown() {
		return // only the block of an optional plugin without a binary can be invalid here; ignore its invalid values
	}
	value = f.absolute(&is, value)
	if is.Secret {
		n.Values = append(n.Values, newTreeValue(a.Name, value, concealed(value), f.place(a.NameRange)))
		return
	}
	n.Values = append(n.Values, f.value(a.Name, value, a.Expr, f.place(a.NameRange)))
}

// withoutTable contains the attributes with paths in the blocks that have no table.
var withoutTable = map[string]schema.Attribute{
	"field.mcp.cwd": {Path: true}, "field.function.cwd": {Path: true}, "field.function.file": {Path: true},
	"field.mcp.command": {Command: true}, "field.function.command": {Command: true},
}

// absolute makes the paths in the value of an attribute absolute.
func (f *forest) absolute(is *schema.Attribute, v cty.Value) cty.Value {
	if !is.Path && !is.Command || v.IsNull() {
		return v
	}
	out, err := cty.Transform(v, func(at cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() {
			return v, nil
		}
		if !is.Path {
			first := len(at) == 1
			if first {
				step, isIndex := at[0].(cty.IndexStep)
				first = isIndex && step.Key.Type() == cty.Number && step.Key.RawEquals(cty.Zero)
			}
			if !first || !strings.ContainsRune(v.AsString(), filepath.Separator) {
				return v, nil
			}
		}
		return cty.StringVal(f.d.path(v.AsString())), nil
	})
	if err != nil {
		return v
	}
	return out
}

// value returns a tree value with sensitive parts masked. A nil expr means that the value does not come from an
// expression.
func (f *forest) value(name string, v cty.Value, expr hcl.Expression, from string) TreeValue {
	return newTreeValue(name, v, f.shown(name, v, expr), from)
}

// newTreeValue returns a tree value. The argument "shown" is v with sensitive parts masked.
func newTreeValue(name string, v, shown cty.Value, from string) TreeValue {
	out := TreeValue{Name: name, From: from, Sensitive: !shown.RawEquals(v), value: shown, whole: v}
	var err error
	if out.Value, err = ctyjson.Marshal(shown, shown.Type()); err != nil {
		out.Value = json.RawMessage("null")
	}
	return out
}

func (f *forest) shown(name string, v cty.Value, expr hcl.Expression) cty.Value {
	if expr == nil || !f.secret(expr) {
		return f.masked(name, v)
	}
	switch e := expr.(type) { // search nested expressions for sensitive parts
	case *hclsyntax.ObjectConsExpr:
		out := make(map[string]cty.Value)
		for _, item := range e.Items {
			key, diags := item.KeyExpr.Value(f.d.ctx)
			if diags.HasErrors() || key.Type() != cty.String || !v.Type().IsObjectType() ||
				!v.Type().HasAttribute(key.AsString()) {
				return cty.StringVal(diagnose.Hidden)
			}
			out[key.AsString()] = f.shown(key.AsString(), v.GetAttr(key.AsString()), item.ValueExpr)
		}
		return cty.ObjectVal(out)
	case *hclsyntax.TupleConsExpr:
		var out []cty.Value
		for i, item := range e.Exprs {
			out = append(out, f.shown(name, v.Index(cty.NumberIntVal(int64(i))), item))
		}
		return cty.TupleVal(out)
	}
	return concealed(v)
}

// concealed returns a value with the same structure in which all content is masked.
func concealed(v cty.Value) cty.Value {
	switch {
	case v.IsNull() || !v.IsKnown():
		return v
	case v.Type().IsPrimitiveType():
		return cty.StringVal(diagnose.Hidden)
	case v.Type().IsObjectType() || v.Type().IsMapType():
		out := make(map[string]cty.Value)
		for key, inner := range v.AsValueMap() {
			out[key] = concealed(inner)
		}
		return cty.ObjectVal(out)
	}
	var out []cty.Value
	for _, inner := range v.AsValueSlice() {
		out = append(out, concealed(inner))
	}
	return cty.TupleVal(out)
}

// masked masks strings whose name or format marks them as secrets.
func (f *forest) masked(name string, v cty.Value) cty.Value {
	out, err := cty.Transform(v, func(at cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() || v.AsString() == diagnose.Hidden {
			return v, nil
		}
		key := name
		for _, step := range at {
			switch s := step.(type) {
			case cty.GetAttrStep:
				key = s.Name
			case cty.IndexStep:
				if s.Key.Type() == cty.String {
					key = s.Key.AsString()
				}
			}
		}
		text := diagnose.Hide(v.AsString(), f.hide)
		if f.Mask != nil {
			text = f.Mask(key, text)
		}
		return cty.StringVal(text), nil
	})
	if err != nil {
		return concealed(v)
	}
	return out
}

// NewTreeValue returns a tree value. JSON must be able to represent the argument "value".
func NewTreeValue(name string, value any, from string) (TreeValue, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return TreeValue{}, err
	}
	t, err := ctyjson.ImpliedType(b)
	if err != nil {
		return TreeValue{}, err
	}
	v, err := ctyjson.Unmarshal(b, t)
	return TreeValue{Name: name, Value: b, From: from, value: v, whole: v}, err
}

// UnmarshalJSON decodes a value. Masked parts remain masked.
func (v *TreeValue) UnmarshalJSON(b []byte) error {
	type plain TreeValue
	if err := json.Unmarshal(b, (*plain)(v)); err != nil {
		return err
	}
	shown, err := NewTreeValue(v.Name, v.Value, v.From)
	v.value, v.whole = shown.value, shown.whole
	return err
}

// HCL returns the tree as a configuration. A comment on each value names its origin.
func (t *Tree) HCL() string {
	var b strings.Builder
	for _, v := range t.Variables {
		fmt.Fprintf(&b, "# var.%s = %s, from %s\n", v.Name, v.Value, oneLine(v.From))
	}
	for _, v := range t.Values {
		fmt.Fprintf(&b, "%s = %s # %s\n", v.Name, hclwrite.TokensForValue(v.value).Bytes(), oneLine(v.From))
	}
	for _, n := range t.Blocks {
		b.WriteByte('\n')
		n.hcl(&b)
	}
	return strings.TrimLeft(string(hclwrite.Format([]byte(b.String()))), "\n")
}

func (n *TreeNode) hcl(b *strings.Builder) {
	b.WriteString(n.Type)
	for _, l := range n.Labels {
		fmt.Fprintf(b, " %s", hclwrite.TokensForValue(cty.StringVal(l)).Bytes())
	}
	from := oneLine(n.From)
	if n.Note != "" && n.Note != n.From {
		from += ", " + n.Note
	}
	fmt.Fprintf(b, " { # %s\n", from)
	for _, v := range n.Values {
		fmt.Fprintf(b, "%s = %s # %s\n", v.Name, hclwrite.TokensForValue(v.value).Bytes(), oneLine(v.From))
	}
	for _, inner := range n.Blocks {
		inner.hcl(b)
	}
	b.WriteString("}\n")
}

// oneLine removes characters from a file name that are unsafe in a comment or on a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
