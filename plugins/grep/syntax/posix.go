package syntax

import (
	"strings"
	"unicode/utf8"
)

// maxCount is the largest repetition count of the POSIX dialects.
const maxCount = 32767

// posix is the parser of the POSIX basic and extended dialects with the extensions of GNU.
type posix struct {
	src      string
	pos      int
	depth    int
	extended bool
	foldCase bool
	effort
}

// Basic parses a pattern in the syntax of GNU grep -G. The characters ( ) { } | + ? are literal; a backslash makes them
// operators. Each line of the pattern is an alternative.
func Basic(pattern string, fold bool) (*Node, error) { return parsePosix(pattern, fold, false) }

// Extended parses a pattern in the syntax of GNU grep -E. Each line of the pattern is an alternative.
func Extended(pattern string, fold bool) (*Node, error) { return parsePosix(pattern, fold, true) }

// Fixed returns a tree that matches the pattern literally. Each line of the pattern is an alternative.
func Fixed(pattern string, fold bool) *Node {
	var alts []*Node
	for line := range strings.SplitSeq(pattern, "\n") {
		alts = append(alts, Text(line, fold))
	}
	return oneOf(alts)
}

// Text returns a node that matches the text literally, including line breaks.
func Text(text string, fold bool) *Node {
	var items []*Node
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			r = RawByte + rune(text[0])
		}
		text = text[n:]
		c := Class{{r, r}}
		if fold {
			c = c.fold()
		}
		items = append(items, class(c))
	}
	return concat(items)
}

func parsePosix(pattern string, fold, extended bool) (*Node, error) {
	if !utf8.ValidString(pattern) {
		return nil, &Error{Pattern: strings.ToValidUTF8(pattern, "\uFFFD"), Reason: "it is not UTF-8"}
	}
	p := &posix{src: pattern, foldCase: fold, extended: extended}
	var n *Node
	err := catch(func() { n = p.alternation(-1) })
	return n, err
}

func (p *posix) fail(from, to int, reason string) {
	panic(&Error{Pattern: p.src, Offset: min(from, len(p.src)), End: min(to, len(p.src)), Reason: reason})
}

// operator reports whether the operator c is next in the pattern. In the basic dialect, operators begin with a
// backslash.
func (p *posix) operator(c string) bool {
	if !p.extended {
		c = `\` + c
	}
	return strings.HasPrefix(p.src[p.pos:], c)
}

func (p *posix) skipOperator() {
	p.pos++
	if !p.extended {
		p.pos++
	}
}

// alternation parses alternatives until the end of the pattern or of the group. The group was opened at the offset
// "open".
func (p *posix) alternation(open int) *Node {
	if p.depth++; p.depth > maxNest {
		p.fail(open, open+1, "groups are nested too deeply; write a simpler pattern")
	}
	defer func() { p.depth-- }()
	var branches, items []*Node
	anchored := false // true if the items consist only of "^"
	for {
		start := len(items) == 0 || anchored // true if no item before this position can be repeated
		wasAnchored := anchored
		anchored = false
		switch {
		case p.pos == len(p.src):
			if open >= 0 {
				p.fail(open, open+1, "the group is not closed")
			}
			return oneOf(append(branches, concat(items)))
		case p.operator("|"), p.src[p.pos] == '\n':
			if p.src[p.pos] == '\n' {
				p.pos++
			} else {
				p.skipOperator()
			}
			branches, items = append(branches, concat(items)), nil
		case p.operator(")") && open >= 0:
			p.skipOperator()
			return oneOf(append(branches, concat(items)))
		case p.operator(")") && !p.extended:
			p.fail(p.pos, p.pos+2, `the closing parenthesis has no group`)
		case p.operator("("):
			at := p.pos
			p.skipOperator()
			items = append(items, p.alternation(at))
		case p.src[p.pos] == '^' && (p.extended || len(items) == 0):
			p.pos++
			anchored = len(items) == 0
			items = append(items, look(StartLine))
		case p.src[p.pos] == '$' && (p.extended || p.endsBranch(p.pos+1)):
			p.pos++
			items = append(items, look(EndLine))
		case p.repeats(start):
			if len(items) == 0 {
				items = append(items, empty())
			}
			items[len(items)-1] = p.repetition(items[len(items)-1])
			anchored = wasAnchored && p.extended
		default:
			items = append(items, p.atom())
		}
	}
}

// endsBranch reports whether an alternative or a group ends at an offset.
func (p *posix) endsBranch(pos int) bool {
	rest := p.src[pos:]
	return rest == "" || rest[0] == '\n' || strings.HasPrefix(rest, `\)`) || strings.HasPrefix(rest, `\|`)
}

// repeats reports whether a repetition operator is next in the pattern. At the start of a branch, the basic
// dialect treats such an operator as literal.
func (p *posix) repeats(start bool) bool {
	if start && !p.extended {
		return false
	}
	if p.src[p.pos] == '*' || p.operator("+") || p.operator("?") {
		return true
	}
	if !p.operator("{") {
		return false
	}
	_, _, _, ok := p.counts()
	return ok
}

func (p *posix) repetition(n *Node) *Node {
	switch {
	case p.src[p.pos] == '*':
		p.pos++
		return repeat(n, 0, -1, false)
	case p.operator("+"):
		p.skipOperator()
		return repeat(n, 1, -1, false)
	case p.operator("?"):
		p.skipOperator()
		return repeat(n, 0, 1, false)
	}
	lo, hi, end, _ := p.counts()
	p.pos = end
	return repeat(n, lo, hi, false)
}

// counts parses {2}, {2,}, {,5} or {2,5} without advancing. In the extended dialect, a "{" before any other text
// is literal, and ok is false.
func (p *posix) counts() (lo, hi, end int, ok bool) {
	at := p.pos
	i := at + 1
	if !p.extended {
		i++
	}
	number := func() int {
		n := -1
		for ; i < len(p.src) && '0' <= p.src[i] && p.src[i] <= '9'; i++ {
			n = min(max(n, 0)*10+int(p.src[i]-'0'), maxCount+1)
		}
		return n
	}
	lo = number()
	hi = lo
	comma := i < len(p.src) && p.src[i] == ','
	if comma {
		i++
		hi = number()
	}
	closing := "}"
	if !p.extended {
		closing = `\}`
	}
	switch {
	case !strings.HasPrefix(p.src[i:], closing) || lo < 0 && !comma:
		if p.extended && !strings.HasPrefix(p.src[at:], "{}") {
			return 0, 0, 0, false
		}
		p.fail(at, i, `the braces do not contain a number, or two numbers with a comma; for the character write [{]`)
	case hi >= 0 && lo > hi:
		p.fail(at, i, "the minimum of repetitions is larger than the maximum")
	case lo > maxCount || hi > maxCount:
		p.fail(at, i, "the number of repetitions is too large; the limit is 32767")
	}
	return max(lo, 0), hi, i + len(closing), true
}

// atom parses a character, an escape, "." or a class.
func (p *posix) atom() *Node {
	at := p.pos
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	switch r {
	case '.':
		return class(anyRune.Without('\n'))
	case '[':
		return class(p.bracket(at))
	case '\\':
		return p.escape(at)
	}
	return p.char(r)
}

func (p *posix) char(r rune) *Node { return class(p.fold(Class{{r, r}})) }

func (p *posix) fold(c Class) Class {
	if !p.affords(c, p.foldCase) {
		p.fail(p.pos, p.pos, tooManyClasses)
	}
	if p.foldCase {
		return c.foldUpper()
	}
	return c
}

func (p *posix) escape(at int) *Node {
	if p.pos == len(p.src) {
		p.fail(at, at+1, `the pattern ends in a single backslash; write \\ for the character`)
	}
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	switch {
	case '1' <= r && r <= '9':
		p.fail(at, p.pos, "back-references are not supported; write the repeated text again, or search for the first part alone")
	case r == '`':
		return look(StartText)
	case r == '\'':
		return look(EndText)
	case r == 'w':
		return class(posixWord())
	case r == 'W':
		return class(anyRune.minus(posixWord()))
	case r == 's':
		return class(posixSpace())
	case r == 'S':
		return class(anyRune.minus(posixSpace()))
	}
	if l, ok := wordLooks[r]; ok {
		return look(l)
	}
	return p.char(r)
}
