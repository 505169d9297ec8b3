package syntax

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// flags contains the flags that a group (?...) can change.
type flags struct {
	fold    bool // flag i: ignore case
	multi   bool // flag m: ^ and $ match at line boundaries
	dotAll  bool // flag s: "." also matches line breaks
	swap    bool // flag U: x* is lazy, and x*? is greedy
	ascii   bool // flag u is off: classes match only ASCII or bytes
	crlf    bool // flag R: "\r\n" is a line break
	verbose bool // flag x: ignore white space and comments
}

// group parses a group at its "(". If the group only sets flags, the result is nil.
func (p *rust) group() *Node {
	at := p.pos
	p.enter(at)
	defer func() { p.depth-- }()
	p.next()
	p.space()
	outer := p.flags
	for _, la := range []string{"?=", "?!", "?<=", "?<!"} {
		if strings.HasPrefix(p.rest(), la) {
			p.fail(at, p.pos+len(la), "look-around is not supported; include the surrounding text in the match, or search twice")
		}
	}
	switch {
	case strings.HasPrefix(p.rest(), "?P<"), strings.HasPrefix(p.rest(), "?<"):
		p.pos += strings.IndexByte(p.rest(), '<') + 1
		p.name()
	case p.peek() == '?':
		p.next()
		if p.eof() {
			p.fail(at, at+1, "the group is not closed")
		}
		start := p.pos
		f := p.readFlags()
		if p.next() == ')' {
			if p.pos-start == 1 {
				p.fail(start-1, start, `the repetition has nothing to repeat; for the character write \?`)
			}
			p.flags = f
			return nil
		}
		p.flags = f
	}
	n := p.alternation(at)
	p.flags = outer
	return n
}

// name parses the name of a group and the ">" after it.
func (p *rust) name() {
	start := p.pos
	for p.peek() != '>' {
		r := p.peek()
		switch {
		case r < 0:
			p.fail(start, p.pos, `the name of the group is not closed; add ">"`)
		case r != '_' && !unicode.IsLetter(r) &&
			(p.pos == start || r != '.' && r != '[' && r != ']' && !unicode.IsDigit(r)):
			p.fail(p.pos, p.pos+1, "this character is not allowed in the name of a group")
		}
		p.next()
	}
	name := p.src[start:p.pos]
	if name == "" || p.names[name] {
		p.fail(start, p.pos, "the name of the group is empty or already used")
	}
	p.names[name] = true
	p.next()
}

// readFlags parses the flags of a group and the ":" or ")" after them.
func (p *rust) readFlags() flags {
	f, on, dangling := p.flags, true, false
	seen := make(map[rune]bool)
	for p.peek() != ':' && p.peek() != ')' {
		at, r := p.pos, p.peek()
		if r < 0 {
			p.fail(at, at, "the group is not closed after its flags")
		}
		if seen[r] {
			p.fail(at, at+1, "the flag is given twice")
		}
		seen[r] = true
		dangling = false
		switch r {
		case '-':
			on, dangling = false, true
		case 'i':
			f.fold = on
		case 'm':
			f.multi = on
		case 's':
			f.dotAll = on
		case 'U':
			f.swap = on
		case 'u':
			f.ascii = !on
		case 'R':
			f.crlf = on
		case 'x':
			f.verbose = on
		default:
			p.fail(at, at+utf8.RuneLen(r), "unknown flag; use one of i, m, s, U, u, R and x")
		}
		p.next()
	}
	if dangling {
		p.fail(p.pos-1, p.pos, "no flag follows the -")
	}
	return f
}
