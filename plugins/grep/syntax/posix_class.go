package syntax

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// posixClasses contains the named classes [[:name:]]. The members of each class are the same as in the C library for
// UTF-8.
var posixClasses = map[string]func() Class{
	"alpha":  posixAlpha,
	"digit":  func() Class { return asciiClasses["digit"] },
	"xdigit": func() Class { return asciiClasses["xdigit"] },
	"alnum":  posixAlnum,
	"upper":  sync.OnceValue(func() Class { return fromTables(unicode.Lu, unicode.Lt, unicode.Other_Uppercase) }),
	"lower":  sync.OnceValue(func() Class { return fromTables(unicode.Ll, unicode.Lt, unicode.Other_Lowercase) }),
	"space":  posixSpace,
	"blank":  sync.OnceValue(func() Class { return fromTables(unicode.Zs).union(runes('\t', '\t')).minus(noBreak) }),
	"cntrl":  sync.OnceValue(func() Class { return fromTables(unicode.Cc, unicode.Zl, unicode.Zp) }),
	"print":  sync.OnceValue(func() Class { return posixGraph().union(fromTables(unicode.Zs)) }),
	"graph":  posixGraph,
	"punct":  sync.OnceValue(func() Class { return posixGraph().minus(posixAlnum()) }),
}

var noBreak = runes(0xA0, 0xA0, 0x2007, 0x2007, 0x202F, 0x202F)

var (
	posixSpace = sync.OnceValue(func() Class { return unicodeSpace().minus(noBreak).minus(runes(0x85, 0x85)) })
	posixGraph = sync.OnceValue(func() Class {
		return fromTables(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Cf, unicode.Co).union(noBreak)
	})
)

// posixAlpha is the class [[:alpha:]]. It includes the digits of all scripts except the ASCII digits.
var posixAlpha = sync.OnceValue(func() Class {
	digits := fromTables(unicode.Nd).minus(runes('0', '9'))
	return fromTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic).union(digits)
})

func posixAlnum() Class { return posixAlpha().union(asciiClasses["digit"]) }

func posixWord() Class { return posixAlnum().union(runes('_', '_')) }

// bracket parses a "[...]" after its "[", which is at the offset "at". Inside the brackets, a backslash is a literal
// character.
func (p *posix) bracket(at int) Class {
	rest := p.src[p.pos:]
	if end := strings.IndexByte(rest, ']'); end > 1 && rest[0] == ':' && rest[end-1] == ':' {
		p.fail(at, p.pos+end+1, "a named class needs two brackets: [[:space:]]")
	}
	negate := strings.HasPrefix(rest, "^")
	if negate {
		p.pos++
	}
	var out Class
	for first := true; ; first = false {
		if p.pos == len(p.src) {
			p.fail(at, at+1, `the class is not closed; add "]", or write \[ for the character`)
		}
		if p.src[p.pos] == ']' && !first {
			p.pos++
			break
		}
		out = append(out, p.bracketItem(at)...)
	}
	out = p.fold(normalize(out))
	if negate {
		return anyRune.minus(out).Without('\n')
	}
	return out
}

func (p *posix) bracketItem(open int) Class {
	start := p.pos
	lo, named := p.bracketChar(open)
	isRange := strings.HasPrefix(p.src[p.pos:], "-") && !strings.HasPrefix(p.src[p.pos:], "-]")
	if !isRange {
		if named != nil {
			return named
		}
		return Class{{lo, lo}}
	}
	p.pos++
	if p.pos == len(p.src) {
		p.fail(open, open+1, `the class is not closed; add "]"`)
	}
	hi, named2 := p.bracketChar(open)
	if named != nil || named2 != nil {
		p.fail(start, p.pos, "a range needs a character on both sides; for the character - put it at the end")
	}
	if lo > hi {
		p.fail(start, p.pos, "the range is reversed")
	}
	return Class{{lo, hi}}
}

// bracketChar parses one character, or one class such as [:name:] or [=c=].
func (p *posix) bracketChar(open int) (rune, Class) {
	at := p.pos
	rest := p.src[p.pos:]
	if len(rest) < 2 || rest[0] != '[' || !strings.ContainsRune(":.=", rune(rest[1])) {
		r, n := utf8.DecodeRuneInString(rest)
		p.pos += n
		return r, nil
	}
	kind := rest[1]
	name, _, ok := strings.Cut(rest[2:], string(kind)+"]")
	if !ok {
		p.fail(open, open+1, `the class is not closed; add "]"`)
	}
	p.pos += 2 + len(name) + 2
	if kind == ':' {
		if p.foldCase && (name == "upper" || name == "lower") {
			name = "alpha"
		}
		c, ok := posixClasses[name]
		if !ok {
			p.fail(at, p.pos, "unknown class; use one of alpha, digit, alnum, upper, lower, space, blank, punct, print, graph, cntrl and xdigit")
		}
		return 0, c()
	}
	r, n := utf8.DecodeRuneInString(name)
	if n == 0 || n != len(name) {
		p.fail(at, p.pos, "only a single character is allowed here")
	}
	if kind == '=' {
		return 0, Class{{r, r}}
	}
	return r, nil
}
