package syntax

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape is the result of parsing an escape sequence: a character, a class, or a condition.
type escape struct {
	char  rune
	byte  bool // true for \xNN, which means a byte under (?-u)
	set   bool
	class Class
	look  *Node
}

var controls = map[rune]rune{'a': '\a', 'f': '\f', 't': '\t', 'n': '\n', 'r': '\r', 'v': '\v'}

var wordLooks = map[rune]Look{'b': Word, 'B': NotWord, '<': WordStart, '>': WordEnd}

// escape parses an escape sequence.
func (p *rust) escape() escape {
	at := p.pos
	p.next()
	if p.eof() {
		p.fail(at, at+1, `the pattern ends in a single backslash; write \\ for the character`)
	}
	r := p.peek()
	switch {
	case '0' <= r && r <= '9':
		p.fail(at, p.pos+1, "back-references are not supported; write the repeated text again, or search for the first part alone")
	case r == 'x' || r == 'u' || r == 'U':
		return p.hex(at)
	case r == 'p' || r == 'P':
		return escape{set: true, class: p.property(at)}
	}
	p.next()
	if strings.ContainsRune("dswDSW", r) {
		c := letterClass(r, !p.flags.ascii)
		if !p.affords(c, false) {
			p.fail(at, p.pos, tooManyClasses)
		}
		return escape{set: true, class: c}
	}
	if l, ok := wordLooks[r]; ok {
		if r == 'b' && p.peek() == '{' {
			l = p.wordBoundary(at)
		}
		if p.flags.ascii {
			l = l.ascii()
		}
		return escape{look: look(l)}
	}
	switch {
	case r == 'A':
		return escape{look: look(StartText)}
	case r == 'z':
		return escape{look: look(EndText)}
	case controls[r] != 0:
		return escape{char: controls[r]}
	case r >= utf8.RuneSelf || unicode.IsLetter(r):
		p.fail(at, p.pos, `unknown escape \`+string(r)+`; write `+string(r)+` or \\`+string(r))
	}
	return escape{char: r}
}

// wordBoundary parses the "{start}" in "\b{start}". It does not parse the "{2}" in "\b{2}", which is a repetition.
func (p *rust) wordBoundary(at int) Look {
	back := p.pos
	p.nextSpace()
	start := p.pos
	letter := func(r rune) bool { return r == '-' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	if p.eof() {
		p.fail(at, p.pos, `the { after \b is not closed`)
	}
	if !letter(p.peek()) {
		p.pos = back
		return Word
	}
	var name strings.Builder
	for letter(p.peek()) {
		name.WriteRune(p.nextSpace())
	}
	end := p.pos
	if p.peek() != '}' {
		p.fail(back, end, `the { after \b is not closed`)
	}
	p.next()
	l, ok := map[string]Look{"start": WordStart, "end": WordEnd, "start-half": WordStartHalf,
		"end-half": WordEndHalf}[name.String()]
	if !ok {
		p.fail(start, end, `unknown word boundary; use \b{start}, \b{end}, \b{start-half} or \b{end-half}`)
	}
	return l
}

// hex parses \x41, \u0041, \U00000041 and the variants with braces.
func (p *rust) hex(at int) escape {
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[p.peek()]
	short := digits == 2
	p.nextSpace()
	var text strings.Builder
	braces := p.peek() == '{'
	if braces {
		p.nextSpace()
	}
	for braces && p.peek() != '}' || !braces && text.Len() < digits {
		r := p.peek()
		if r < 0 {
			p.fail(at, p.pos, "the hexadecimal number is too short")
		}
		if !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			p.fail(p.pos, p.pos+utf8.RuneLen(r), "invalid hexadecimal digit")
		}
		text.WriteRune(p.nextSpace())
	}
	if braces {
		p.nextSpace()
	}
	n, err := strconv.ParseUint(text.String(), 16, 32)
	if err != nil || n > unicode.MaxRune || !utf8.ValidRune(rune(n)) {
		p.fail(at, p.pos, "the hexadecimal number is not a valid character")
	}
	return escape{char: rune(n), byte: short && !braces}
}

// property parses \pL, \p{Greek}, \p{sc=Greek}, \P{...} or \p{^...}.
func (p *rust) property(at int) Class {
	negate := p.nextSpace() == 'P'
	var name strings.Builder
	if p.peek() != '{' {
		if p.eof() || p.peek() == '\\' {
			p.fail(at, p.pos, `the name of the property is missing; write \pL or \p{Greek}`)
		}
		name.WriteRune(p.nextSpace())
	} else {
		p.nextSpace()
		for p.peek() != '}' {
			if p.eof() {
				p.fail(at, p.pos, `the name of the property is not closed; add "}"`)
			}
			name.WriteRune(p.nextSpace())
		}
		p.next()
	}
	if p.flags.ascii {
		p.fail(at, p.pos, "properties of Unicode are not available under (?-u)")
	}
	text := name.String()
	key, value, found := strings.Cut(text, "!=")
	if found {
		negate = !negate
	} else if key, value, found = strings.Cut(text, ":"); !found {
		key, value, _ = strings.Cut(text, "=")
	}
	c, ok := property(key, value)
	if !ok {
		p.fail(at, p.pos, `unknown property; use a general category (\p{Lu}), a script (\p{Greek}) or a property such as \p{Alphabetic}`)
	}
	c = p.fold(c)
	if negate {
		c = anyRune.minus(c)
	}
	return c
}
