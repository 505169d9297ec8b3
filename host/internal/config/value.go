package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

// value decodes and compares the values of an attribute. T is the decoded block.
type value[T any] struct {
	// kind is the type in the reference.
	kind string
	// decode evaluates an attribute of a file. Errors leave the block as it is, or incomplete.
	decode func(d *decoder, a *hcl.Attribute, to *T)
	copy   func(to, from *T)
	// show returns the value as text. number returns the value of a number or a bool, which is 1 for false and 2 for
	// true. list returns the list of texts. Each is nil for a value that has no such form.
	show   func(of *T) string
	number func(of *T) float64
	list   func(of *T) *[]string
	// words contains the words of a file for false and true.
	words []string
	// hidden is true if messages must not show the decoded values.
	hidden bool
}

func copied[T, V any](at func(*T) *V) func(to, from *T) {
	return func(to, from *T) { *at(to) = *at(from) }
}

// custom returns a value that only the function decode can evaluate.
func custom[T, V any](kind string, at func(*T) *V, decode func(d *decoder, a *hcl.Attribute, to *T)) value[T] {
	return value[T]{kind: kind, decode: decode, copy: copied(at)}
}

// plain returns a value that the decoder of HCL evaluates.
func plain[T, V any](kind string, at func(*T) *V) value[T] {
	return custom(kind, at, func(d *decoder, a *hcl.Attribute, to *T) {
		d.add(gohcl.DecodeExpression(a.Expr, d.ctx, at(to)))
	})
}

// choice returns a text from a fixed set.
func choice[T any](at func(*T) *string, among ...string) value[T] {
	return choiceOf(at, func() []string { return among })
}

func choiceOf[T any](at func(*T) *string, among func() []string) value[T] {
	out := custom("string", at, func(d *decoder, a *hcl.Attribute, to *T) {
		*at(to) = d.choice(a.Expr, *at(to), among()...)
	})
	out.show = func(of *T) string { return *at(of) }
	return out
}

// either returns a bool that is one of two words in a file.
func either[T any](at func(*T) *bool, no, yes string) value[T] {
	out := custom("string", at, func(d *decoder, a *hcl.Attribute, to *T) {
		*at(to) = d.choice(a.Expr, no, no, yes) == yes
	})
	out.words = []string{no, yes}
	out.asBool(func(of *T) bool { return *at(of) })
	out.show = func(of *T) string { return out.words[int(out.number(of))-1] }
	return out
}

// flag returns a bool.
func flag[T any](at func(*T) *bool) value[T] {
	out := plain("bool", at)
	out.asBool(func(of *T) bool { return *at(of) })
	return out
}

// not returns a bool that is false in the block if it is true in a file.
func not[T any](at func(*T) *bool) value[T] {
	out := custom("bool", at, func(d *decoder, a *hcl.Attribute, to *T) {
		on := !*at(to)
		d.add(gohcl.DecodeExpression(a.Expr, d.ctx, &on))
		*at(to) = !on
	})
	out.asBool(func(of *T) bool { return !*at(of) })
	return out
}

// optional returns a bool that can be absent. An absent one permits more than false, and less than true.
func optional[T any](at func(*T) **bool) value[T] {
	out := custom("bool", at, func(d *decoder, a *hcl.Attribute, to *T) {
		var on bool
		diags := gohcl.DecodeExpression(a.Expr, d.ctx, &on)
		if d.add(diags); !diags.HasErrors() {
			*at(to) = &on
		}
	})
	out.show = func(of *T) string {
		if *at(of) == nil {
			return ""
		}
		return strconv.FormatBool(**at(of))
	}
	out.number = func(of *T) float64 { return float64(slices.Index([]string{"false", "", "true"}, out.show(of)) + 1) }
	return out
}

func (v *value[T]) asBool(is func(of *T) bool) {
	v.show = func(of *T) string { return strconv.FormatBool(is(of)) }
	v.number = func(of *T) float64 {
		if is(of) {
			return 2
		}
		return 1
	}
}

// integer is the type of a number in a block.
type integer interface{ ~int | ~int64 | ~uint64 }

func (v *value[T]) asNumber(is func(of *T) float64, show func(of *T) string) {
	v.number = is
	v.show = func(of *T) string {
		if is(of) == 0 {
			return "unlimited"
		}
		return show(of)
	}
}

// count returns a whole number of at least 1. The argument "detail" is the remedy for a smaller one.
func count[T any](at func(*T) *int, detail string) value[T] {
	out := custom("number", at, func(d *decoder, a *hcl.Attribute, to *T) {
		*at(to) = d.positive(a.Expr, a.Name, detail)
	})
	out.asNumber(func(of *T) float64 { return float64(*at(of)) }, func(of *T) string { return strconv.Itoa(*at(of)) })
	return out
}

// size returns a number of bytes, which has a unit in a file.
func size[T any, N integer](at func(*T) *N) value[T] {
	return amount("size", at, (*decoder).size)
}

// amount returns a whole number that the function decode evaluates.
func amount[T any, N integer](kind string, at func(*T) *N, decode func(*decoder, hcl.Expression) uint64) value[T] {
	out := custom(kind, at, func(d *decoder, a *hcl.Attribute, to *T) {
		if n := decode(d, a.Expr); n > 0 {
			*at(to) = N(n)
		}
	})
	out.asNumber(func(of *T) float64 { return float64(*at(of)) }, func(of *T) string { return fmt.Sprint(*at(of)) })
	return out
}

// duration returns a positive duration.
func duration[T any](at func(*T) *time.Duration) value[T] {
	out := custom("duration", at, func(d *decoder, a *hcl.Attribute, to *T) {
		if v := d.duration(a.Expr); v > 0 {
			*at(to) = v
		}
	})
	out.asNumber(func(of *T) float64 { return float64(*at(of)) }, func(of *T) string { return at(of).String() })
	return out
}

// ratio returns a number from least to most. The argument "detail" is the remedy for another one.
func ratio[T any](at func(*T) *float64, least, most float64, detail string) value[T] {
	return custom("number", at, func(d *decoder, a *hcl.Attribute, to *T) {
		d.number(a.Expr, at(to), least, most, detail)
	})
}

// texts returns a list of texts. In a file, it can also be a single text.
func texts[T any](at func(*T) *[]string) value[T] {
	return listOf("list(string)", at, (*decoder).texts)
}

// globs returns a list of globs for paths.
func globs[T any](at func(*T) *[]string) value[T] {
	return listOf("list(string)", at, func(d *decoder, e hcl.Expression) []string { out, _ := d.globs(e); return out })
}

// directories returns a list of paths.
func directories[T any](at func(*T) *[]string) value[T] {
	return listOf("list(string)", at, func(d *decoder, e hcl.Expression) (out []string) {
		for _, path := range d.texts(e) {
			out = append(out, d.path(path))
		}
		return out
	})
}

func listOf[T any](kind string, at func(*T) *[]string, decode func(*decoder, hcl.Expression) []string) value[T] {
	out := custom(kind, at, func(d *decoder, a *hcl.Attribute, to *T) { *at(to) = decode(d, a.Expr) })
	out.list = at
	return out
}

// ownList returns a list of texts that only the function decode can evaluate.
func ownList[T any](at func(*T) *[]string, decode func(d *decoder, a *hcl.Attribute, to *T)) value[T] {
	out := custom("list(string)", at, decode)
	out.list = at
	return out
}

// hidden returns a list whose decoded texts no message shows.
func hidden[T any](v value[T]) value[T] {
	v.hidden = true
	return v
}
