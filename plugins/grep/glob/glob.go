// Package glob implements the globs of ignore files and of file type tables. "*" and "?" stay
// within one element of a path, "**" as a whole element spans any number of them, "{a,b}" is
// either, and "[a-z]" and "[!a-z]" are one byte.
//
// A match takes time proportional to the length of the path times the length of the glob, whatever
// the glob, because the globs come from files that nobody has checked.
package glob

import (
	"bytes"
	"strings"
)

// Glob is a parsed glob. It is immutable and safe for concurrent use.
type Glob struct {
	kind kind
	text string // the literal text that kind compares with
	prog *program
	// Every matching path begins with prefix and ends with suffix. Its last element begins with base.
	prefix, suffix, base string
}

// kind is the cheapest way to match a glob.
type kind uint8

const (
	general   kind = iota
	literal        // the path equals text
	basename       // the last element equals text
	extension      // the last element ends in text, an extension with its only dot in front
	ending         // the path ends in text
)

// maxStates limits the memory of one glob, which grows with the square of its length.
const maxStates = 4096

// maxText limits the length of a glob in bytes. No path is as long.
const maxText = 64 << 10

// Options change how a glob is read.
type Options struct {
	// LiteralBracket treats a "[" without "]" as the character itself. Otherwise it is an error.
	LiteralBracket bool
	// Shell selects the syntax of shells and most programs. It differs from that of ignore files in two points: an empty
	// alternative in "{a,}" counts, and a class does not match "/".
	Shell bool
}

// Parse parses a glob. The error is an [*Error].
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
	if !strings.HasPrefix(path, g.prefix) || !strings.HasSuffix(path, g.suffix) || !strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], g.base) {
		return false
	}
	return g.prog.match(path)
}

// Basename returns the required name of the last element, if it alone decides the match.
func (g *Glob) Basename() (string, bool) { return g.text, g.kind == basename }

// Extension returns the required [Ext] of the path, if it alone decides the match.
func (g *Glob) Extension() (string, bool) { return g.text, g.kind == extension }

// Ext returns the part of the last element from the last dot on, including the dot. It is empty if there is no dot.
func Ext(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		return base[i:]
	}
	return ""
}

// classify detects globs that need no program.
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

// prefix returns the literal text at the beginning of the tokens.
func (t tokens) prefix() string {
	n := 0
	for n < len(t) && t[n].op == char {
		n++
	}
	s, _ := t[:n].literal()
	return s
}

// base returns the literal text at the beginning of the last element. It returns "" unless the glob is "**/" and a name
// that may contain "*" and "?".
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

// suffix returns the literal text at the end of the tokens.
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
