// Package pattern compiles the patterns of a search. A pattern is an expression in one of several dialects. A compiled
// pattern finds matching lines.
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

// The values of [Dialect].
const (
	Rust     Dialect = "rust"  // the syntax of ripgrep
	Basic    Dialect = "bre"   // the syntax of grep -G
	Extended Dialect = "ere"   // the syntax of grep -E
	Fixed    Dialect = "fixed" // the syntax of grep -F
)

// Options are the options of [Compile]. The zero value selects the Rust dialect.
type Options struct {
	Dialect    Dialect
	IgnoreCase bool
	// Multiline allows a match to span several lines.
	Multiline bool
}

// Pattern is a compiled expression. It is immutable and safe for concurrent use.
type Pattern struct {
	prog *automaton.Program
	// required contains texts that every match contains, the longest first. It can be empty.
	required []needle
	// exact is true if every match equals the required text.
	exact bool
	// This field is a set of alternative texts. It is set only if no required text is known or the known text is short.
	either either
	// prefix is the text with which every match begins. It is empty if the text is unknown or too short.
	prefix needle
	// crossing is true if a match can contain a line break or depend on a line break next to it.
	crossing bool
	literals Literals
	// apart is true if the pattern contains a condition on the beginning or end of the text. In this case, each line
	// is searched as a separate text.
	apart bool
}

// MaxLength is the maximum length of an expression in bytes.
const MaxLength = 256 << 10

// Compile compiles an expression. If the error concerns an element of the expression, it is a [*syntax.Error].
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
	fold := bytepair.Fast // without fast pair search, a folded search is not faster than the automaton
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

// requiresLittle reports whether no required text is known or the known text is short.
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

// Crossing reports whether a match can span several lines. For such a pattern, a text must be searched as a whole.
func (p *Pattern) Crossing() bool { return p.crossing }

var (
	errLineBreak = errors.New("the pattern has a line break, but each match lies in one line; set multiline to search across lines")
	errNUL       = errors.New("the pattern has a NUL byte, which text files do not contain; remove the NUL byte")
)

// at converts err to a [*syntax.Error] with the position of an invalid element. It finds the element in expr
// by its escaped or plain spelling. If expr contains neither spelling, the result has no position.
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

// withoutLineBreaks removes the line break from all character classes. It returns an error if a class becomes empty.
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

// seesLines reports whether a node can match a line break or depends on an adjacent line break.
func seesLines(n *syntax.Node) bool {
	switch n.Op {
	case syntax.OpClass:
		return n.Class.Has('\n')
	case syntax.OpLook:
		return n.Look < syntax.Word
	}
	return false
}
