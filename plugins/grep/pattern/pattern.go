// Package pattern implements the patterns of a search: an expression in one of the dialects,
// compiled to find lines.
package pattern

import (
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/plugins/grep/automaton"
	"toolhost.dev/plugins/grep/bytepair"
	"toolhost.dev/plugins/grep/syntax"
)

// Dialect is the syntax of an expression.
type Dialect string

// The dialects.
const (
	Rust     Dialect = "rust"  // ripgrep's
	Basic    Dialect = "bre"   // grep -G
	Extended Dialect = "ere"   // grep -E
	Fixed    Dialect = "fixed" // grep -F
)

// Options of [Compile]. The zero value is the Rust dialect.
type Options struct {
	Dialect    Dialect
	IgnoreCase bool
	// Multiline allows a match to span several lines.
	Multiline bool
}

// Pattern is a compiled expression. It is immutable and safe for concurrent use.
type Pattern struct {
	prog *automaton.Program
	// required are texts that every match contains, the longest first. It may be empty.
	required []needle
	// exact means that the required text is the only match.
	exact bool
	// either is used if no required text is known, or only a short one.
	either either
	// prefix is the text that every match begins with. It is empty if unknown or too short.
	prefix needle
	// crossing means that a match may contain a line break, or depend on one next to it.
	crossing bool
	literals Literals
	// apart means that the pattern depends on the beginning or end of the text, so each line is searched as a separate
	// text.
	apart bool
}

// MaxLength is the maximal length of an expression in bytes.
const MaxLength = 256 << 10

// Compile compiles an expression. The error is a [*syntax.Error] if it concerns a place in the expression.
func Compile(expr string, o Options) (*Pattern, error) {
	if len(expr) > MaxLength {
		return nil, fmt.Errorf("the pattern has %d bytes, and the limit is %d; search for a rare part of the pattern, or for its alternatives in several calls", len(expr), MaxLength)
	}
	tree, err := parse(expr, o)
	if err != nil {
		return nil, err
	}
	if !o.Multiline {
		if err := withoutLineBreaks(tree); err != nil {
			return nil, at(expr, "\\n", "\n", err)
		}
	}
	if tree.Any(func(n *syntax.Node) bool { r, ok := n.Class.Single(); return ok && r == 0 }) {
		return nil, at(expr, `\x00`, "\x00", errNUL)
	}
	p := &Pattern{}
	edges := tree.Any(func(n *syntax.Node) bool {
		return n.Op == syntax.OpLook && (n.Look == syntax.StartText || n.Look == syntax.EndText)
	})
	p.apart = edges && !o.Multiline
	p.crossing = o.Multiline && tree.Any(seesLines)
	if p.prog, err = automaton.Compile(tree); err != nil {
		return nil, err
	}
	fold := bytepair.Fast // on other processors the automaton is as fast
	required, exact := requirementsOf(tree, fold)
	for _, r := range required {
		p.required = append(p.required, newNeedle(r))
	}
	p.exact = exact
	p.prefix = newNeedle(prefixOf(tree, fold))
	p.literals = literalsOf(tree)
	if fold && p.requiresLittle() {
		p.either = eitherOf(p.literals)
	}
	return p, nil
}

// requiresLittle reports whether no required text is known, or only a short one.
func (p *Pattern) requiresLittle() bool {
	return len(p.required) == 0 || !p.exact && len(p.required[0].text) < minRequired
}

func parse(expr string, o Options) (*syntax.Node, error) {
	switch o.Dialect {
	case Rust, "":
		return syntax.Rust(expr, o.IgnoreCase)
	case Basic:
		return syntax.Basic(expr, o.IgnoreCase)
	case Extended:
		return syntax.Extended(expr, o.IgnoreCase)
	case Fixed:
		if o.Multiline {
			return syntax.Text(expr, o.IgnoreCase), nil
		}
		return syntax.Fixed(expr, o.IgnoreCase), nil
	}
	return nil, fmt.Errorf("unknown dialect %q; use rust, bre, ere or fixed", o.Dialect)
}

// Crossing reports whether a text must be searched as a whole, because a match may span several lines.
func (p *Pattern) Crossing() bool { return p.crossing }

var (
	errLineBreak = errors.New("the pattern has a line break, but each match lies in one line; set multiline to search across lines")
	errNUL       = errors.New("the pattern has a NUL byte, which text files do not contain; remove the NUL byte")
)

// at adds the position of one of two spellings to an error, if the expression contains it.
func at(expr, escaped, plain string, err error) error {
	e := &syntax.Error{Pattern: expr, Reason: err.Error()}
	for _, s := range []string{escaped, plain} {
		if i := strings.Index(expr, s); i >= 0 {
			e.Offset, e.End = i, i+len(s)
			break
		}
	}
	return e
}

// withoutLineBreaks removes the line break from all classes. It returns an error if a class becomes empty.
func withoutLineBreaks(n *syntax.Node) error {
	if n.Op == syntax.OpClass && n.Class.Has('\n') {
		if n.Class = n.Class.Without('\n'); len(n.Class) == 0 {
			return errLineBreak
		}
	}
	for _, sub := range n.Sub {
		if err := withoutLineBreaks(sub); err != nil {
			return err
		}
	}
	return nil
}

// seesLines reports whether a node can consume a line break or depends on one.
func seesLines(n *syntax.Node) bool {
	switch n.Op {
	case syntax.OpClass:
		return n.Class.Has('\n')
	case syntax.OpLook:
		return n.Look < syntax.Word
	}
	return false
}
