package syntax

import (
	"strings"
	"unicode/utf8"
)

func (p *rust) universe() Class {
	if p.flags.ascii {
		return anyByte
	}
	return anyRune
}

// set parses a "[...]" class, which can contain other classes. The operators are && (intersection), -- (difference)
// and ~~ (symmetric difference). They are left-associative. Adjacent items without an operator are combined first.
func (p *rust) set() Class {
	at := p.pos
	p.enter(at)
	defer func() { p.depth-- }()
	open := func() {
		if p.eof() {
			p.fail(at, at+1, `the class is not closed; add "]", or write \[ for the character`)
		}
	}
	p.nextSpace()
	open()
	negate := p.peek() == '^'
	if negate {
		p.nextSpace()
		open()
	}
	var left, items Class // "left" is the left operand of "op"; "items" is the beginning of the right operand
	op := ""
	for p.peek() == '-' {
		items = append(items, Range{'-', '-'})
		p.nextSpace()
		open()
	}
	if items == nil && p.peek() == ']' {
		items = append(items, Range{']', ']'})
		p.nextSpace()
		open()
	}
	for {
		p.space()
		open()
		rest := p.rest()
		switch {
		case p.peek() == '[':
			if c, ok := p.posixClass(); ok {
				items = append(items, c...)
				continue
			}
			items = append(items, p.set()...)
		case p.peek() == ']':
			p.next()
			out := p.apply(op, left, items)
			out = p.fold(out)
			if negate {
				out = p.universe().minus(out)
			}
			return out
		case strings.HasPrefix(rest, "&&"), strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "~~"):
			left, items = p.apply(op, left, items), nil
			op = rest[:2]
			p.pos += 2
		default:
			items = append(items, p.setItem(at)...)
		}
	}
}

func (p *rust) apply(op string, left, right Class) Class {
	right = normalize(right)
	if op == "" {
		return right
	}
	left, right = p.fold(left), p.fold(right)
	switch op {
	case "&&":
		return left.intersect(right)
	case "--":
		return left.minus(right)
	}
	return left.minus(right).union(right.minus(left))
}

// setItem parses a character, a range or an escaped class.
func (p *rust) setItem(open int) Class {
	start := p.pos
	lo := p.setChar()
	p.space()
	if p.eof() {
		p.fail(open, open+1, `the class is not closed; add "]", or write \[ for the character`)
	}
	after := p.peekAfter()
	if p.peek() != '-' || after == ']' || after == '-' {
		if lo.set {
			return lo.class
		}
		r := p.setRune(lo, start)
		return Class{{r, r}}
	}
	p.nextSpace()
	if p.eof() {
		p.fail(open, open+1, `the class is not closed; add "]", or write \[ for the character`)
	}
	hi := p.setChar()
	if lo.set || hi.set {
		p.fail(start, p.pos, `a range needs a character on both sides; for the character write \-`)
	}
	a, b := p.setRune(lo, start), p.setRune(hi, start)
	if a > b {
		p.fail(start, p.pos, "the range is reversed")
	}
	if a < RawByte && b >= RawByte { // a range from an ASCII symbol to a byte above 0x7F
		return Class{{a, 0x7F}, {RawByte + 0x80, b}}
	}
	return Class{{a, b}}
}

// peekAfter returns the character after the current one. It skips white space if the flag x is set.
func (p *rust) peekAfter() rune {
	back := p.pos
	defer func() { p.pos = back }()
	p.nextSpace()
	return p.peek()
}

func (p *rust) setChar() escape {
	if p.peek() != '\\' {
		return escape{char: p.next()}
	}
	start := p.pos
	e := p.escape()
	if e.look != nil {
		p.fail(start, p.pos, "this escape is not allowed in a class")
	}
	return e
}

// setRune returns the symbol for a character in a class.
func (p *rust) setRune(e escape, at int) rune {
	if !p.flags.ascii || e.char < utf8.RuneSelf {
		return e.char
	}
	if !e.byte {
		p.fail(at, p.pos, `only ASCII and bytes such as \xFF can be in a class under (?-u)`)
	}
	return RawByte + e.char
}

// posixClass parses "[:alpha:]" or "[:^alpha:]". If the text is a nested class instead, ok is false.
func (p *rust) posixClass() (Class, bool) {
	rest, ok := strings.CutPrefix(p.rest(), "[:")
	if !ok {
		return nil, false
	}
	name, _, ok := strings.Cut(rest, ":]")
	plain, negate := strings.CutPrefix(name, "^")
	c, known := asciiClasses[plain]
	if !ok || !known {
		return nil, false
	}
	p.pos += len("[:") + len(name) + len(":]")
	c = p.fold(c)
	if negate {
		c = p.universe().minus(c)
	}
	return c, true
}
