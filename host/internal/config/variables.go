package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/sdk/suggest"
)

// VariablePrefix is the prefix of environment variables that set configuration variables.
const VariablePrefix = "TOOLHOST_VAR_"

// preludeHCL contains the blocks with variables and locals, which expressions can use.
type preludeHCL struct {
	Variables []variableHCL `hcl:"variable,block"`
	Locals    []localsHCL   `hcl:"locals,block"`
	Rest      hcl.Body      `hcl:",remain"`
}

type variableHCL struct {
	Name        string         `hcl:"name,label"`
	Default     *hcl.Attribute `hcl:"default,optional"`
	Type        hcl.Expression `hcl:"type,optional"`
	Description *string        `hcl:"description,optional"`
	Sensitive   bool           `hcl:"sensitive,optional"`
	At          hcl.Range      `hcl:",def_range"`
}

type localsHCL struct {
	Body hcl.Body `hcl:",remain"`
}

// variable contains the declaration and the value of a variable.
type variable struct {
	*variableHCL
	is    cty.Type // cty.DynamicPseudoType means any type
	value *cty.Value
	from  string
}

// prelude evaluates the blocks of variables and locals. It returns the rest of the body.
func (d *decoder) prelude(body hcl.Body, p *hclparse.Parser) hcl.Body {
	var f preludeHCL
	d.add(gohcl.DecodeBody(body, d.ctx, &f))
	if d.diags.HasErrors() {
		return f.Rest
	}
	d.variables(f.Variables, p)
	d.locals(f.Locals)
	return f.Rest
}

// variables sets the value of each variable. The sources, in order of precedence, are the command line, the variable
// files on the command line, the file next to the configuration, the environment and the default value.
func (d *decoder) variables(blocks []variableHCL, p *hclparse.Parser) {
	all := make(map[string]*variable)
	for i := range blocks {
		b := &blocks[i]
		first, dup := all[b.Name]
		switch {
		case dup:
			d.fail(b.At, fmt.Sprintf("Variable %q is declared twice", b.Name), "The first block is at %s:%d. Remove one.", first.At.Filename, first.At.Start.Line)
		case !hclsyntax.ValidIdentifier(b.Name):
			d.fail(b.At, fmt.Sprintf("%q cannot name a variable", b.Name), "Use letters, digits, '_' and '-', beginning with a letter.")
		default:
			all[b.Name] = d.declare(b)
		}
	}
	known := slices.Sorted(maps.Keys(all))
	look := d.env.lookup()
	for _, name := range known {
		if raw, ok := look(VariablePrefix + name); ok {
			d.set(all[name], raw, "$"+VariablePrefix+name)
		}
	}
	for _, file := range d.variableFiles() {
		d.variableFile(file, all, known, p)
	}
	for _, said := range d.env.Variables {
		name, raw, ok := strings.Cut(said, "=")
		v := all[name]
		switch {
		case !ok:
			d.complain(fmt.Sprintf("--var %s has no value", name), "Write --var NAME=VALUE.")
		case v == nil:
			d.complain(fmt.Sprintf("--var %s: the configuration declares no such variable", name), "Add a block variable %q, or correct the name.%s", name, suggest.DidYouMean(name, known))
		default:
			d.set(v, raw, "--var "+name)
		}
	}
	values := make(map[string]cty.Value, len(all))
	for _, name := range known {
		v := all[name]
		if v.value == nil {
			d.fail(v.At, fmt.Sprintf("Variable %q has no value", name),
				"Set it by --var %s=…, $%s%s or a line in %s, or add a default here.", name, VariablePrefix, name, filepath.Base(d.besideFile()))
			v.value = &cty.DynamicVal
		}
		if v.Sensitive {
			d.cfg.sensitive["var."+name] = true
			d.cfg.hide = append(d.cfg.hide, leaves(*v.value)...)
		}
		values[name] = *v.value
		d.cfg.from[name] = v.from
	}
	d.ctx.Variables["var"] = cty.ObjectVal(values)
}

// declare evaluates a variable block.
func (d *decoder) declare(b *variableHCL) *variable {
	v := &variable{variableHCL: b, is: cty.DynamicPseudoType}
	if given(b.Type) {
		is, diags := typeexpr.TypeConstraint(b.Type)
		if diags.HasErrors() {
			d.fail(b.Type.Range(), "This is not a type", "Use string, number, bool, any, list(…), set(…), map(…) or object({…}).")
		} else {
			v.is = is
		}
	}
	if b.Default == nil {
		return v
	}
	value, diags := b.Default.Expr.Value(&hcl.EvalContext{Functions: d.ctx.Functions})
	d.add(diags)
	if diags.HasErrors() {
		v.value = &cty.DynamicVal
		return v
	}
	if v.is == cty.DynamicPseudoType && !given(b.Type) && !value.IsNull() {
		switch t := value.Type(); t {
		case cty.String, cty.Number, cty.Bool: // allow only types that all sources can represent
			v.is = t
		}
	}
	d.assign(v, value, b.Default.Expr.Range())
	return v
}

func (d *decoder) assign(v *variable, value cty.Value, at hcl.Range) {
	converted, err := convert.Convert(value, v.is)
	if err != nil {
		d.fail(at, fmt.Sprintf("The value of variable %q is not %s", v.Name, article(v.is)), "%s.",
			diagnose.Capital(err.Error()))
		converted = cty.DynamicVal
	}
	v.value, v.from = &converted, place(at)
}

// set assigns a value from outside the configuration to a variable. For strings, numbers and bools, raw is the value as
// text. For other types, raw is an HCL expression.
func (d *decoder) set(v *variable, raw, source string) {
	value := cty.StringVal(raw)
	if !v.is.IsPrimitiveType() && v.is != cty.DynamicPseudoType {
		if nestedExpression([]byte(raw), source) != nil {
			d.complain(source+" is nested too deep", "At most %d levels or operators can be nested.", maxNested)
			v.value = &cty.DynamicVal
			return
		}
		expr, diags := hclsyntax.ParseExpression([]byte(raw), source, hcl.InitialPos)
		if !diags.HasErrors() {
			value, diags = expr.Value(nil)
		}
		if diags.HasErrors() {
			d.complain(fmt.Sprintf("%s is not %s", source, article(v.is)), "Write it as in the configuration: '[\"a\", \"b\"]', '{ a = 1 }'.")
			v.value = &cty.DynamicVal
			return
		}
	}
	converted, err := convert.Convert(value, v.is)
	if err != nil {
		d.complain(fmt.Sprintf("%s is not %s", source, article(v.is)), "The variable is declared at %s.", place(v.At))
		converted = cty.DynamicVal
	}
	v.value, v.from = &converted, source
}

func article(t cty.Type) string {
	name := typeexpr.TypeString(t)
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// complain reports a problem without a position in a file.
func (d *decoder) complain(summary, detail string, a ...any) {
	d.add(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, a...)}})
}

// VariableFile returns the path of the file with variable values that is read automatically. The path is "a.hclvars"
// for the file "a.hcl", and "toolhost.hclvars" in a directory.
func VariableFile(path string) string {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return filepath.Join(path, "toolhost.hclvars")
	}
	for _, ending := range []string{".json", ".hcl"} {
		path = strings.TrimSuffix(path, ending)
	}
	return path + ".hclvars"
}

func (d *decoder) besideFile() string { return VariableFile(d.cfg.Source) }

func (d *decoder) variableFiles() []string {
	var out []string
	if d.dir != "" {
		if _, err := os.Stat(d.besideFile()); err == nil || !errors.Is(err, fs.ErrNotExist) {
			out = append(out, d.besideFile())
		}
	}
	return append(out, d.env.VariableFiles...)
}

// variableFile reads the values of variables from a file. Each line has the form "name = value".
func (d *decoder) variableFile(name string, all map[string]*variable, known []string, p *hclparse.Parser) {
	f, diags := parseFile(p, name)
	d.add(diags)
	if diags.HasErrors() {
		return
	}
	attrs, diags := f.Body.JustAttributes()
	d.add(diags)
	for _, a := range inOrder(attrs) {
		v := all[a.Name]
		if v == nil {
			d.fail(a.NameRange, fmt.Sprintf("The configuration declares no variable %q", a.Name), "Add a block variable %q, or correct the name.%s", a.Name, suggest.DidYouMean(a.Name, known))
			continue
		}
		value, diags := a.Expr.Value(&hcl.EvalContext{Functions: d.ctx.Functions})
		d.add(diags)
		if diags.HasErrors() {
			v.value = &cty.DynamicVal
			continue
		}
		d.assign(v, value, a.Expr.Range())
	}
}

// inOrder returns attributes in the order in which they occur in the file.
func inOrder(attrs hcl.Attributes) []*hcl.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hcl.Attribute) int {
		if c := strings.Compare(a.Range.Filename, b.Range.Filename); c != 0 {
			return c
		}
		return a.Range.Start.Byte - b.Range.Start.Byte
	})
}

// locals evaluates all locals. It evaluates each local after the locals to which it refers.
func (d *decoder) locals(blocks []localsHCL) {
	all := make(map[string]*hcl.Attribute)
	for _, b := range blocks {
		attrs, diags := b.Body.JustAttributes()
		d.add(diags)
		for _, a := range inOrder(attrs) {
			if first, dup := all[a.Name]; dup {
				d.fail(a.NameRange, fmt.Sprintf("There are two locals %q", a.Name), "The first is at %s. Remove one.",
					place(first.NameRange))
				continue
			}
			all[a.Name] = a
		}
	}
	values := make(map[string]cty.Value, len(all))
	open := make(map[string]bool)
	var evaluate func(name string)
	evaluate = func(name string) {
		a := all[name]
		if _, done := values[name]; done || a == nil {
			return
		}
		if open[name] {
			d.fail(a.NameRange, fmt.Sprintf("The local %q refers to itself", name), "It is part of a cycle of references. Give one of the locals in the cycle a value without a reference to the others.")
			values[name] = cty.DynamicVal
			return
		}
		open[name] = true
		for _, t := range a.Expr.Variables() {
			if root, attr := diagnose.Reference(t); root == "local" {
				evaluate(attr)
			}
		}
		if _, failed := values[name]; failed {
			return
		}
		d.ctx.Variables["local"] = cty.ObjectVal(values)
		value, diags := a.Expr.Value(d.ctx)
		d.add(diags)
		if diags.HasErrors() {
			value = cty.DynamicVal
		}
		if d.cfg.secret(a.Expr) {
			d.cfg.sensitive["local."+name] = true
			d.cfg.hide = append(d.cfg.hide, leaves(value)...)
		}
		values[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		evaluate(name)
	}
	d.ctx.Variables["local"] = cty.ObjectVal(values)
}

// secret reports whether an expression refers to a sensitive value.
func (c *Config) secret(e hcl.Expression) bool {
	return slices.ContainsFunc(e.Variables(), func(t hcl.Traversal) bool {
		root, attr := diagnose.Reference(t)
		if attr == "" && (root == "var" || root == "local") {
			return len(c.sensitive) > 0
		}
		return c.sensitive[root+"."+attr]
	})
}

// leastHidden is the minimum length of a sensitive text, in bytes, to be hidden in other texts.
const leastHidden = 4

// hideSecrets returns a function that looks up environment variables. If the name of a variable suggests a secret, the
// value of the variable is hidden in all texts, because any setting can contain it.
func (d *decoder) hideSecrets(look func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := look(name)
		if ok && audit.SecretName(name) && len(value) >= leastHidden && !slices.Contains(d.cfg.hide, value) {
			d.cfg.hide = append(d.cfg.hide, value)
		}
		return value, ok
	}
}

// Hide replaces the values of sensitive variables in a text.
func (c *Config) Hide(text string) string { return diagnose.Hide(text, c.hide) }

// Hidden returns the values of sensitive variables, and of environment variables with names of secrets.
func (c *Config) Hidden() []string { return c.hide }

// leaves returns the strings in a value that are long enough to hide in other texts.
func leaves(v cty.Value) (out []string) {
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String && len(v.AsString()) >= leastHidden {
			out = append(out, v.AsString())
		}
		return true, nil
	})
	return out
}
