package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/config/internal/schema"
)

// table lists the attributes of a kind of block. T is the decoded block. The reference, the decoder, the defaults, the
// comparison of rights and the restart of plugins follow from the rows.
type table[T any] struct {
	rows []attribute[T]
	// defaults returns a block with the default values. The caller must not change its lists.
	defaults func() T
}

// attribute is one row of a table.
type attribute[T any] struct {
	// name is the name of the attribute. If a nested block contains it, the name of this block comes first, such as
	// "limits.files". A row for a nested block has the type "block".
	name string
	value[T]
	rights rights
	// def is the default as HCL, or a text in parentheses if it depends on something. doc is a noun phrase.
	def, doc string
	// was is a deprecated name of the attribute.
	was   string
	marks mark
}

// mark is a set of properties of an attribute.
type mark int

// These are the properties of attributes.
const (
	// required: the block is invalid without the attribute.
	required mark = 1 << iota
	// needed: as required, but the decoder of the block reports the absence.
	needed
	// hostOnly: no plugin depends on the value, so that a change restarts none.
	hostOnly
	// secret: no output shows the value.
	secret
	// isPath: each text is a path, which can be relative to the directory of the file.
	isPath
	// isCommand: the first text is a path if it contains a slash.
	isCommand
)

// rights determines how an attribute limits what tools can do. Its zero value is invalid: each row has to decide.
type rights struct {
	schema.Rights
	order func() []string
}

// These are the rights of attributes.
var (
	// free: the attribute neither grants nor restricts anything.
	free = rights{Rights: schema.Free}
	// higher: a higher value permits more, and zero is no limit. For a bool, true permits more.
	higher = rights{Rights: schema.Higher}
	// lower: a lower value permits more. For a bool, false permits more.
	lower = rights{Rights: schema.Lower}
	// longer: each further element of the list permits more.
	longer = rights{Rights: schema.Longer}
	// shorter: each further element of the list permits less.
	shorter = rights{Rights: schema.Shorter}
	// filter: each further element of the list permits more, and without a list, everything is permitted.
	filter = rights{Rights: schema.Filter}
	// compared: package privilege compares the attribute together with others.
	compared = rights{Rights: schema.Compared}
)

// ranked returns the rights of an attribute with a fixed set of values. The first one permits most.
func ranked(words ...string) rights { return rankedBy(func() []string { return words }) }

func rankedBy(words func() []string) rights { return rights{Rights: schema.Ranked, order: words} }

func newTable[T any](rows ...attribute[T]) *table[T] {
	t := &table[T]{rows: rows}
	t.defaults = sync.OnceValue(t.decodeDefaults)
	return t
}

// row returns a row for an attribute. For def and doc, see [attribute].
func row[T any](name string, v value[T], r rights, def, doc string, marks ...mark) attribute[T] {
	a := attribute[T]{name: name, value: v, rights: r, def: def, doc: doc}
	for _, m := range marks {
		a.marks |= m
	}
	return a
}

// nested returns a row for a block that can appear once.
func nested[T any](name, doc string) attribute[T] {
	return attribute[T]{name: name, value: value[T]{kind: "block"}, rights: free, doc: doc}
}

// renamed returns the row with a deprecated name of the attribute.
func (a attribute[T]) renamed(from string) attribute[T] {
	a.was = from
	return a
}

// in reports whether the row is directly in the nested block with the given prefix. It returns the name there.
func (a *attribute[T]) in(prefix string) (name string, ok bool) {
	name, ok = strings.CutPrefix(a.name, prefix)
	return name, ok && !strings.Contains(name, ".")
}

// describe adds the rows to the schema of a block. The argument "prefix" is the prefix of a nested block, or empty.
func (t *table[T]) describe(b *Block, prefix string) {
	for i := range t.rows {
		a := &t.rows[i]
		name, ok := a.in(prefix)
		switch {
		case !ok:
		case a.kind == "block":
			inner := &Block{Name: name, Path: b.Path + "." + name, Doc: a.doc}
			t.describe(inner, a.name+".")
			b.Blocks = append(b.Blocks, inner)
		default:
			s := schema.Attribute{
				Name: name, Required: a.marks&required != 0, Needed: a.marks&needed != 0, Type: a.kind,
				Default: a.def, Doc: a.doc,
				Rights: a.rights.Rights, Host: a.marks&hostOnly != 0, Secret: a.marks&secret != 0,
				Path: a.marks&isPath != 0, Command: a.marks&isCommand != 0,
			}
			switch {
			case a.rights.order != nil:
				s.Order = a.rights.order()
			case a.rights.Rights == schema.Lower:
				s.Order = a.words
			case a.rights.Rights == schema.Higher && a.words != nil:
				s.Order = []string{a.words[1], a.words[0]}
			}
			b.Attributes = append(b.Attributes, s)
			if a.was != "" {
				b.Attributes = append(b.Attributes, schema.Attribute{
					Name: a.was, Type: a.kind, Rights: schema.Free,
					Doc: "Deprecated name of " + a.name + ", for one release.",
				})
			}
		}
	}
}

// read decodes the body of a block. Attributes that the body lacks keep their values. The result contains the positions
// of the values that the body has, by the names of their rows.
func (t *table[T]) read(d *decoder, body hcl.Body, to *T) (at map[string]hcl.Range) {
	at = make(map[string]hcl.Range)
	t.readNested(d, "", body, to, at)
	return at
}

func (t *table[T]) readNested(d *decoder, prefix string, body hcl.Body, to *T, at map[string]hcl.Range) {
	b := &Block{}
	t.describe(b, prefix)
	content, diags := body.Content(b.Content())
	d.malformed = append(d.malformed, diags...)
	if content == nil {
		return
	}
	for i := range t.rows {
		a := &t.rows[i]
		name, ok := a.in(prefix)
		if !ok || a.kind == "block" {
			continue
		}
		is := content.Attributes[name]
		if was := content.Attributes[a.was]; was != nil && given(was.Expr) {
			is = d.renamed(was, is, name)
		}
		if is != nil && given(is.Expr) {
			at[a.name] = is.Expr.Range()
			a.decode(d, is, to)
		}
	}
	first := make(map[string]*hcl.Block)
	for _, inner := range content.Blocks {
		if was := first[inner.Type]; was != nil {
			d.malformed = append(d.malformed, diagnose.Problemf(inner.DefRange,
				fmt.Sprintf("Duplicate %s block", inner.Type), "Only one %s block is allowed. Another was defined at %s.", inner.Type, was.DefRange))
			continue
		}
		first[inner.Type] = inner
		t.readNested(d, prefix+inner.Type+".", inner.Body, to, at)
	}
}

// decodeDefaults decodes the defaults in the rows. It panics if one of them is invalid.
func (t *table[T]) decodeDefaults() (out T) {
	d := &decoder{cfg: &Config{}}
	for i := range t.rows {
		if a := &t.rows[i]; a.def != "" && a.def[0] != '(' && a.def != "[]" && a.def != "{}" {
			e, diags := hclsyntax.ParseExpression([]byte(a.def), Default, hcl.InitialPos)
			d.add(diags)
			a.decode(d, &hcl.Attribute{Name: a.name, Expr: e}, &out)
		}
	}
	if d.diags.HasErrors() {
		panic("config: an invalid default: " + d.diags.Error())
	}
	return out
}

// permits returns how much a value permits. A higher number permits more.
func (a *attribute[T]) permits(of *T) float64 {
	switch a.rights.Rights {
	case schema.Ranked:
		return -float64(max(0, slices.Index(a.rights.order(), a.show(of))))
	case schema.Higher:
		if n := a.number(of); n != 0 {
			return n
		}
		return math.Inf(1)
	case schema.Lower:
		return -a.number(of)
	}
	return 0
}

// forbids reports whether a value permits less than the absence of the attribute.
func (a *attribute[T]) forbids(of *T) bool {
	var absent T
	return a.permits(of) < a.permits(&absent)
}

// stricter copies to the block out each value that forbids something, if it permits less than the one in out.
func (t *table[T]) stricter(out, by *T) {
	for i := range t.rows {
		if a := &t.rows[i]; a.forbids(by) && a.permits(by) < a.permits(out) {
			a.copy(out, by)
		}
	}
}

// increases describes each attribute that permits more in the block now than in the block old. The argument "of" is
// the path of the block, such as `tool "read"`.
func (t *table[T]) increases(of string, old, now *T) (out []string) {
	for i := range t.rows {
		a := &t.rows[i]
		name := of + "." + a.name
		switch a.rights.Rights {
		case schema.Longer, schema.Shorter, schema.Filter:
			was, is := *a.list(old), *a.list(now)
			verb, more := "has", Lost(is, was)
			if a.rights.Rights == schema.Shorter {
				verb, more = "lacks", Lost(was, is)
			}
			switch filters := a.rights.Rights == schema.Filter; {
			case filters && was == nil:
			case filters && is == nil:
				out = append(out, name+" was removed")
			case len(more) > 0:
				out = append(out, fmt.Sprintf("%s %s %s", name, verb, a.elements(more)))
			}
		default:
			if a.permits(now) > a.permits(old) {
				out = append(out, fmt.Sprintf("%s was %s and is %s", name, a.text(old), a.text(now)))
			}
		}
	}
	return out
}

// restrict takes from the block out what the block now does not permit. It describes each change.
func (t *table[T]) restrict(of string, out, now *T) (taken []string) {
	for i := range t.rows {
		a := &t.rows[i]
		name := of + "." + a.name
		switch a.rights.Rights {
		case schema.Longer, schema.Shorter, schema.Filter:
			was, is := a.list(out), *a.list(now)
			switch {
			case a.rights.Rights == schema.Shorter:
				if more := Lost(is, *was); len(more) > 0 {
					*was = slices.Concat(*was, more)
					taken = append(taken, fmt.Sprintf("%s has %s", name, a.elements(more)))
				}
			case a.rights.Rights == schema.Filter && is == nil:
			case a.rights.Rights == schema.Filter && *was == nil:
				*was = is
				taken = append(taken, fmt.Sprintf("%s is %s", name, a.elements(is)))
			default:
				if gone := Lost(*was, is); len(gone) > 0 {
					*was = slices.DeleteFunc(append([]string{}, *was...), func(s string) bool {
						return slices.Contains(gone, s)
					})
					taken = append(taken, fmt.Sprintf("%s lacks %s", name, a.elements(gone)))
				}
			}
		default:
			if a.permits(now) < a.permits(out) {
				a.copy(out, now)
				taken = append(taken, fmt.Sprintf("%s is %s", name, a.text(out)))
			}
		}
	}
	return taken
}

// withoutHostOnly returns the block with zero values for the attributes on which no plugin depends.
func (t *table[T]) withoutHostOnly(block T) T {
	var zero T
	for i := range t.rows {
		if a := &t.rows[i]; a.marks&hostOnly != 0 {
			a.copy(&block, &zero)
		}
	}
	return block
}

// text returns a value for a message.
func (a *attribute[T]) text(of *T) string {
	text := a.show(of)
	switch def, err := strconv.Unquote(a.def); {
	case text == "" && err == nil:
		return def
	case text == "" || a.rights.Rights == schema.Lower && a.number(of) == 0:
		return "not set"
	}
	return text
}

// elements joins the elements of a list for a message. It shows the first ones of a long list.
func (a *attribute[T]) elements(list []string) string {
	const shown = 20
	switch {
	case a.hidden:
		return fmt.Sprintf("%d values", len(list))
	case len(list) == 0:
		return "empty"
	case len(list) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
	}
	return strings.Join(list, ", ")
}

// Lost returns the elements of the old list that the new list lacks.
func Lost(old, now []string) []string {
	return slices.DeleteFunc(slices.Clone(old), func(s string) bool { return slices.Contains(now, s) })
}
