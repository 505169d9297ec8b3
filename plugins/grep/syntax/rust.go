package syntax

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNest is the maximum depth of nested groups and classes.
const maxNest = 250

// rust is the parser of ripgrep's dialect.
type rust struct {
	src   string
	pos   int
	depth int
	flags flags
	names map[string]bool
	effort
}

// Rust parses a pattern in the syntax of ripgrep. This is the syntax of Rust's regex crate, except that ^ and $
// match at every line. Every error is an [*Error].
func Rust(pattern string, fold bool) (*Node, error) {
	if !utf8.ValidString(pattern) {
		return nil, &Error{Pattern: strings.ToValidUTF8(pattern, "\uFFFD"), Reason: `it is not UTF-8; write (?-u:\xFF) for the byte FF`}
	}
	p := &rust{src: pattern, flags: flags{multi: true, fold: fold}, names: make(map[string]bool)}
	var n *Node
	err := catch(func() { n = p.alternation(-1) })
	return n, err
}

// catch calls the function "parse". If parse panics with an error of the parser, catch returns the error.
func catch(parse func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			err = e
		default:
			panic(e)
		}
	}()
	parse()
	return nil
}

func (p *rust) fail(from, to int, reason string) {
	panic(&Error{Pattern: p.src, Offset: min(from, len(p.src)), End: min(to, len(p.src)), Reason: reason})
}

func (p *rust) eof() bool { return p.pos >= len(p.src) }

// peek returns the current character, or -1 at the end.
func (p *rust) peek() rune {
	if p.eof() {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(p.src[p.pos:])
	return r
}

func (p *rust) next() rune {
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	return r
}

func (p *rust) rest() string { return p.src[min(p.pos, len(p.src)):] }

// space skips white space and comments if the flag x is set.
func (p *rust) space() {
	for p.flags.verbose && !p.eof() {
		switch r := p.peek(); {
		case unicode.IsSpace(r):
			p.next()
		case r == '#':
			_, _, more := strings.Cut(p.rest(), "\n")
			if !more {
				p.pos = len(p.src)
				return
			}
			p.pos += strings.IndexByte(p.rest(), '\n') + 1
		default:
			return
		}
	}
}

// nextSpace consumes a character, then calls space.
func (p *rust) nextSpace() rune {
	r := p.next()
	p.space()
	return r
}

func (p *rust) enter(at int) {
	if p.depth++; p.depth > maxNest {
		p.fail(at, at+1, "groups are nested too deeply; write a simpler pattern")
	}
}

// alternation parses alternatives until the end of the pattern or the ")" of the group. The group was opened at the
// offset "open".
func (p *rust) alternation(open int) *Node {
	var branches, items []*Node
	repeatable := false // true if the last item can be repeated
	for {
		p.space()
		at := p.pos
		switch p.peek() {
		case -1:
			if open >= 0 {
				p.fail(open, open+1, `the group is not closed; add ")", or write \( for the character`)
			}
			return oneOf(append(branches, concat(items)))
		case ')':
			if open < 0 {
				p.fail(at, at+1, `the closing parenthesis has no group; for the character write \)`)
			}
			p.next()
			return oneOf(append(branches, concat(items)))
		case '|':
			p.next()
			branches, items, repeatable = append(branches, concat(items)), nil, false
			continue
		case '?', '*', '+', '{':
			if !repeatable {
				p.fail(at, at+1, "the repetition has nothing to repeat; write \\"+string(p.peek())+" for the character")
			}
			items[len(items)-1] = p.repetition(items[len(items)-1])
			continue
		case '(':
			n := p.group()
			if repeatable = n != nil; repeatable {
				items = append(items, n)
			}
			continue
		case '[':
			items = append(items, class(p.set()))
		default:
			items = append(items, p.primitive())
		}
		repeatable = true
	}
}

// repetition parses one repetition operator. It returns a node that repeats the node n.
func (p *rust) repetition(n *Node) *Node {
	at := p.pos
	lo, hi := 0, -1
	switch p.next() {
	case '?':
		hi = 1
	case '+':
		lo = 1
	case '{':
		lo, hi = p.counts(at)
	}
	lazy := p.flags.swap
	if p.peek() == '?' {
		p.next()
		lazy = !lazy
	}
	if hi >= 0 && lo > hi {
		p.fail(at, p.pos, "the minimum of repetitions is larger than the maximum")
	}
	return repeat(n, lo, hi, lazy)
}

// counts parses the counts of a repetition and the final "}". The "{" is at the offset "at".
func (p *rust) counts(at int) (lo, hi int) {
	p.space()
	lo, okLo := p.decimal(at)
	if p.eof() {
		p.fail(at, p.pos, `the repetition is not closed; add "}", or write \{ for the character`)
	}
	hi = lo
	if p.peek() == ',' {
		p.nextSpace()
		hi = -1
		if p.peek() != '}' {
			var ok bool
			if hi, ok = p.decimal(at); !ok && okLo {
				okLo = false
			}
		}
	}
	if !okLo {
		p.fail(at, p.pos+1, `the repetition has no number; write {2,5}, or for the character \{`)
	}
	if p.peek() != '}' {
		p.fail(at, p.pos, `the repetition is not closed; add "}", or write \{ for the character`)
	}
	p.nextSpace()
	return lo, hi
}

func (p *rust) decimal(at int) (n int, ok bool) {
	for unicode.IsSpace(p.peek()) {
		p.next()
	}
	for '0' <= p.peek() && p.peek() <= '9' {
		n, ok = n*10+int(p.peek()-'0'), true
		if n > 1<<31 {
			p.fail(at, p.pos+1, "the number of repetitions is too large")
		}
		p.nextSpace()
	}
	for unicode.IsSpace(p.peek()) {
		p.nextSpace()
	}
	return n, ok
}

// primitive parses one character, escape sequence, ".", "^" or "$".
func (p *rust) primitive() *Node {
	switch p.peek() {
	case '\\':
		e := p.escape()
		if e.look != nil {
			return e.look
		}
		if e.set {
			return class(e.class)
		}
		return class(p.foldChar(e))
	case '.':
		p.next()
		return class(p.dot())
	case '^':
		p.next()
		return look(p.anchor(StartText, StartLine, StartCRLF))
	case '$':
		p.next()
		return look(p.anchor(EndText, EndLine, EndCRLF))
	}
	return class(p.foldChar(escape{char: p.next()}))
}

func (p *rust) anchor(text, line, crlf Look) Look {
	switch {
	case !p.flags.multi:
		return text
	case p.flags.crlf:
		return crlf
	}
	return line
}

func (p *rust) dot() Class {
	c := anyRune
	if p.flags.ascii {
		c = anyByte
	}
	if p.flags.dotAll {
		return c
	}
	if p.flags.crlf {
		c = c.Without('\r')
	}
	return c.Without('\n')
}

// foldChar returns a class that contains one character. If the flag i is set, the class also contains the other
// cases of the character.
func (p *rust) foldChar(e escape) Class {
	r := e.char
	if p.flags.ascii && e.byte && r > 0x7F {
		r += RawByte
	}
	return p.fold(Class{{r, r}})
}

func (p *rust) fold(c Class) Class {
	if !p.affords(c, p.flags.fold) {
		p.fail(p.pos, p.pos, tooManyClasses)
	}
	switch {
	case !p.flags.fold:
		return c
	case p.flags.ascii:
		return c.foldASCII()
	}
	return c.fold()
}
