package glob

import (
	"fmt"
	"slices"
)

// Error describes an invalid glob.
type Error struct {
	Glob   string
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("the glob %q is not valid: %s", e.Glob, e.Reason) }

type op uint8

const (
	char                op = iota
	anyChar                // ?
	star                   // *
	recursivePrefix        // **/ at the beginning
	recursiveSuffix        // /** at the end
	recursiveZeroOrMore    // /**/ between elements
	class                  // [...]
	alternates             // {...}
)

type token struct {
	op      op
	char    rune
	negated bool
	ranges  [][2]rune
	alts    []tokens
}

type tokens []token

type parser struct {
	src  []rune
	pos  int
	opts Options
	// branches is a stack of token lists. The bottom list belongs to the whole glob. The other lists belong to the
	// alternatives in unclosed braces. For each unclosed "{", the field "open" holds the number of lists that the stack
	// had before the "{".
	branches []tokens
	open     []int
	// unclosed is true if the parser has found a "[" without "]". In this case, every later "[" also lacks its "]".
	unclosed bool
}

func (p *parser) fail(reason string) error {
	const shown = 500
	if len(p.src) > shown {
		return &Error{Glob: string(p.src[:shown]) + "…", Reason: reason}
	}
	return &Error{Glob: string(p.src), Reason: reason}
}

func (p *parser) parse() (tokens, error) {
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		p.pos++
		switch {
		case c == '?':
			p.push(token{op: anyChar})
		case c == '*':
			p.star()
		case c == '[' && !p.unclosed:
			if err := p.class(); err != nil {
				return nil, err
			}
		case c == '{':
			p.open = append(p.open, len(p.branches))
			p.branches = append(p.branches, nil)
		case c == '}':
			if len(p.open) == 0 {
				return nil, p.fail("a } has no matching {; for the character write \\}")
			}
			start := p.open[len(p.open)-1]
			p.open = p.open[:len(p.open)-1]
			alts := slices.Clone(p.branches[start:])
			p.branches = p.branches[:start]
			p.push(token{op: alternates, alts: alts})
		case c == ',' && len(p.open) > 0:
			p.branches = append(p.branches, nil)
		case c == '\\':
			if p.pos == len(p.src) {
				return nil, p.fail("the glob ends in a single backslash")
			}
			p.push(token{op: char, char: p.src[p.pos]})
			p.pos++
		default:
			p.push(token{op: char, char: c})
		}
	}
	if len(p.open) > 0 {
		return nil, p.fail("a { has no matching }; for the character write \\{")
	}
	return p.branches[0], nil
}

func (p *parser) last() *tokens { return &p.branches[len(p.branches)-1] }

func (p *parser) push(t token) { *p.last() = append(*p.last(), t) }

func (p *parser) peek() (rune, bool) {
	if p.pos < len(p.src) {
		return p.src[p.pos], true
	}
	return 0, false
}

// star parses a "*" or "**" after its first "*". "**" is special only as a whole element of the path.
func (p *parser) star() {
	afterSlash := p.pos >= 2 && p.src[p.pos-2] == '/'
	if c, ok := p.peek(); !ok || c != '*' {
		p.push(token{op: star})
		return
	}
	p.pos++
	next, more := p.peek()
	if len(*p.last()) == 0 {
		if more && next != '/' {
			p.push(token{op: star})
			return
		}
		p.push(token{op: recursivePrefix})
		p.pos = min(p.pos+1, len(p.src))
		return
	}
	inAlternates := len(p.branches) > 1
	var t token
	switch {
	case !afterSlash:
		p.push(token{op: star})
		return
	case !more, inAlternates && (next == ',' || next == '}'):
		t.op = recursiveSuffix
	case next == '/':
		p.pos++
		t.op = recursiveZeroOrMore
	default:
		p.push(token{op: star})
		return
	}
	// The new token replaces the slash before it. If the token before the slash has the same kind as the new token,
	// the two tokens are merged.
	list := p.last()
	prev := (*list)[len(*list)-1]
	if prev.op == recursivePrefix || prev.op == recursiveSuffix {
		return
	}
	(*list)[len(*list)-1] = t
}

// class parses a "[...]" after its "[". Inside the brackets, a backslash is a literal character.
func (p *parser) class() error {
	start := p.pos
	t := token{op: class}
	if c, ok := p.peek(); ok && (c == '!' || c == '^') {
		t.negated = true
		p.pos++
	}
	inRange := false
	for first := true; ; first = false {
		c, ok := p.peek()
		if !ok {
			if !p.opts.LiteralBracket {
				return p.fail("a [ has no matching ]; for the character write \\[")
			}
			p.pos, p.unclosed = start, true
			p.push(token{op: char, char: '['})
			return nil
		}
		p.pos++
		switch {
		case c == ']' && !first:
			if inRange {
				t.ranges = append(t.ranges, [2]rune{'-', '-'})
			}
			p.push(t)
			return nil
		case c == '-' && !first && !inRange:
			inRange = true
		case inRange:
			r := &t.ranges[len(t.ranges)-1]
			r[1] = c
			if r[1] < r[0] {
				return p.fail(fmt.Sprintf("the range %c-%c is reversed", r[0], r[1]))
			}
			inRange = false
		default:
			t.ranges = append(t.ranges, [2]rune{c, c})
		}
	}
}
