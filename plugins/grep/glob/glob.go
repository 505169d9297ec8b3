// Package glob matches paths against the globs of ignore files and file type tables. "*" and "?" match within one
// element of a path. "**" as a whole element matches any number of elements. "{a,b}" matches either alternative.
// "[a-z]" matches one byte in the range, and "[!a-z]" one byte outside of the range.
//
// Every match takes at most time proportional to the length of the path times the length of the glob. The time must
// be limited because the globs come from untrusted files.
package glob

import (
	"bytes"
	"strings"
)

// Glob is a parsed glob. It is immutable and safe for concurrent use.
type Glob struct {
	kind kind
	text string // the literal text that the glob's kind compares with the path
	prog *program
	// Every matching path begins with prefix and ends with suffix. Its last element begins with base.
	prefix, suffix, base string
}

// kind is the method that matches a glob. Each glob uses the cheapest method that is correct for it.
type kind uint8

const (
	general   kind = iota
	literal        // the path must equal the literal text
	basename       // the last element must equal the literal text
	extension      // the last element must end with the literal text, which is a file extension with its dot
	ending         // the path must end with the literal text
)

// maxStates limits the number of states of a glob. The memory of a glob grows with the square of its number of
// states.
const maxStates = 4096

// maxText limits the length of a glob in bytes. It exceeds the length of every path.
const maxText = 64 << 10

// Options change the syntax of a glob.
type Options struct {
	// LiteralBracket makes a "[" without "]" match the character "[". Otherwise a "[" without "]" is an error.
	LiteralBracket bool
	// Shell selects the glob syntax of shells and most programs. In contrast to ignore files, the empty alternative
	// in "{a,}" matches the empty text, and a class does not match "/".
	Shell bool
}

// Parse parses a glob. Every error is an [*Error].
func Parse(text string, o Options) (*Glob, error) {
	p := parser{src: []rune(text[:min(len(text), maxText)]), opts: o, branches: []tokens{nil}}
	if len(text) > maxText {
		return nil, p.fail("the glob is too long")
	}
	toks, err := p.parse()
	if err != nil {
		return nil, err
	}
	if k, s := classify(toks); k != general {
		return &Glob{kind: k, text: s}, nil
	}
	prog := compile(toks, o.Shell)
	if len(prog.states) > maxStates {
		return nil, p.fail("the glob is too long")
	}
	prog.close()
	return &Glob{prog: prog, prefix: toks.prefix(), suffix: toks.suffix(), base: toks.base()}, nil
}

// Match reports whether the glob matches a whole path. Elements of the path are separated by "/", and the path neither
// begins nor ends with "/".
func (g *Glob) Match(path string) bool {
	switch g.kind {
	case literal:
		return path == g.text
	case basename:
		return path[strings.LastIndexByte(path, '/')+1:] == g.text
	case extension:
		return Ext(path) == g.text
	case ending:
		return strings.HasSuffix(path, g.text)
	}
	if !strings.HasPrefix(path, g.prefix) || !strings.HasSuffix(path, g.suffix) ||
		!strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], g.base) {
		return false
	}
	return g.prog.match(path)
}

// Basename returns the name of the last element if the glob matches exactly the paths that end with this element. For
// any other glob, the bool is false, and the text has no meaning.
func (g *Glob) Basename() (string, bool) { return g.text, g.kind == basename }

// Extension returns the [Ext] of the path if the glob matches exactly the paths with this extension. For any other
// glob, the bool is false, and the text has no meaning.
func (g *Glob) Extension() (string, bool) { return g.text, g.kind == extension }

// Ext returns the last element of the path from its last dot on, including the dot. If the element has no dot, Ext
// returns "".
func Ext(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		return base[i:]
	}
	return ""
}

// classify returns the kind of a glob and the literal text of the kind. The text is empty if the kind needs a
// compiled program.
func classify(toks tokens) (kind, string) {
	if s, ok := toks.literal(); ok {
		return literal, s
	}
	if len(toks) == 0 || toks[0].op != recursivePrefix {
		return general, ""
	}
	rest := toks[1:]
	if s, ok := rest.literal(); ok && s != "" && !strings.Contains(s, "/") {
		return basename, s
	}
	if len(rest) > 1 && rest[0].op == star {
		s, ok := rest[1:].literal()
		if ok && strings.LastIndexByte(s, '.') == 0 && !strings.Contains(s, "/") {
			return extension, s
		}
		if ok && !strings.Contains(s, "/") {
			return ending, s
		}
	}
	return general, ""
}

// prefix returns the literal text with which the tokens begin.
func (t tokens) prefix() string {
	n := 0
	for n < len(t) && t[n].op == char {
		n++
	}
	s, _ := t[:n].literal()
	return s
}

// base returns the literal text with which the last element begins. It returns "" unless the glob is "**/" followed by
// a name, which can contain "*" and "?".
func (t tokens) base() string {
	if len(t) == 0 || t[0].op != recursivePrefix {
		return ""
	}
	for _, tok := range t[1:] {
		if tok.op != star && tok.op != anyChar && (tok.op != char || tok.char == '/') {
			return ""
		}
	}
	return t[1:].prefix()
}

// suffix returns the literal text with which the tokens end.
func (t tokens) suffix() string {
	n := len(t)
	for n > 0 && t[n-1].op == char {
		n--
	}
	s, _ := t[n:].literal()
	return s
}

func (t tokens) literal() (string, bool) {
	var b bytes.Buffer
	for _, tok := range t {
		if tok.op != char {
			return "", false
		}
		b.WriteRune(tok.char)
	}
	return b.String(), true
}
