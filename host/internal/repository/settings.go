package repository

import (
	"bytes"
	"errors"
	"strings"
)

// setting is a setting in a file of git, with its position in the text.
type setting struct {
	section    string // section name in lower case
	subsection string // subsection name, unchanged
	quoted     bool   // whether the header has a subsection, which can be empty
	key        string // key in lower case
	value      string
	header     []byte // the text of the section's header
	start, end int    // range of the bytes to delete with the setting
}

// name returns the name in the form that git prints.
func (s *setting) name() string {
	if s.subsection == "" && !s.quoted {
		return s.section + "." + s.key
	}
	return s.section + "." + s.subsection + "." + s.key
}

// errSyntax is the error for a text that git cannot parse.
var errSyntax = errors.New("git cannot read the file")

// parse returns the settings in a text, in order. It follows git's own parser byte by byte, because a difference would
// hide a setting. If git refuses the text, parse returns errSyntax.
func parse(text []byte) ([]setting, error) {
	p := parser{text: text}
	p.at = len(text) - len(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if bytes.IndexByte(text, 0) >= 0 { // git's versions treat NUL differently
		return nil, errSyntax
	}
	for {
		before := p.at
		switch c := p.next(); {
		case p.ended:
			return p.all, nil
		case isSpace(c):
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			if !p.sectionHeader(before) {
				return nil, errSyntax
			}
		case !isLetter(c) || p.section == "":
			return nil, errSyntax
		default:
			if !p.setting(before) {
				return nil, errSyntax
			}
		}
	}
}

type parser struct {
	text  []byte
	at    int
	ended bool // whether the parser already returned the end of the text as a line end
	all   []setting

	section, subsection string
	quoted              bool
	header              []byte
}

// next returns one character. It skips a carriage return before a line end. It returns a line end at the
// end of the text.
func (p *parser) next() byte {
	if p.at >= len(p.text) {
		p.ended = true
		return '\n'
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		p.at++
		return '\n'
	}
	return c
}

func (p *parser) skipLine() {
	for p.next() != '\n' {
		continue
	}
}

// sectionHeader parses a header. The opening bracket at position start is already read.
func (p *parser) sectionHeader(start int) bool {
	var name strings.Builder
	p.subsection, p.quoted = "", false
	for {
		c := p.next()
		switch {
		case p.ended:
			return false
		case c == ']':
			p.section = name.String()
			p.header = p.text[start:p.at]
			// git treats everything up to the last dot of [a.b] as the section
			if section, sub, ok := strings.Cut(p.section, "."); ok {
				p.section, p.subsection, p.quoted = section, sub, true
			}
			return p.section != ""
		case isSpace(c):
			p.section = name.String()
			if !p.quotedSubsection(c) {
				return false
			}
			p.header = p.text[start:p.at]
			if section, sub, ok := strings.Cut(p.section, "."); ok {
				p.section, p.subsection = section, sub+"."+p.subsection
			}
			return p.section != ""
		case !isKeyChar(c) && c != '.':
			return false
		}
		name.WriteByte(lower(c))
	}
}

// quotedSubsection parses the rest of a header such as [remote "origin"]. The argument "c" is the space before the
// quote.
func (p *parser) quotedSubsection(c byte) bool {
	for isSpace(c) {
		if c == '\n' {
			return false
		}
		c = p.next()
	}
	if c != '"' {
		return false
	}
	var sub strings.Builder
	for {
		switch c = p.next(); c {
		case '\n':
			return false
		case '"':
			p.subsection, p.quoted = sub.String(), true
			return p.next() == ']'
		case '\\':
			if c = p.next(); c == '\n' {
				return false
			}
		}
		sub.WriteByte(c)
	}
}

// setting parses a setting whose first character is at position start.
func (p *parser) setting(start int) bool {
	s := setting{section: p.section, subsection: p.subsection, quoted: p.quoted, header: p.header, start: start}
	p.at = start
	var c byte
	var key strings.Builder
	for c = p.next(); isKeyChar(c) && !p.ended; c = p.next() {
		key.WriteByte(lower(c))
	}
	s.key = key.String()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c != '\n' {
		if c != '=' {
			return false
		}
		var ok bool
		if s.value, ok = p.value(); !ok {
			return false
		}
	}
	s.end = p.at
	p.widen(&s)
	p.all = append(p.all, s)
	return true
}

// widen adds the indentation of a setting to the bytes to delete. If other text precedes the setting in its
// line, the line end stays.
func (p *parser) widen(s *setting) {
	line := s.start
	for line > 0 && (p.text[line-1] == ' ' || p.text[line-1] == '\t') {
		line--
	}
	if line == 0 || p.text[line-1] == '\n' {
		s.start = line
		return
	}
	if s.end > s.start && p.text[s.end-1] == '\n' {
		s.end--
		if s.end > s.start && p.text[s.end-1] == '\r' {
			s.end--
		}
	}
}

// value parses a value up to the end of its line.
func (p *parser) value() (string, bool) {
	var out []byte
	quoted, trimmed := false, 0 // the variable trimmed holds the length without trailing space
	for {
		c := p.next()
		switch {
		case c == '\n':
			if quoted {
				return "", false
			}
			return string(out[:trimmed]), true
		case isSpace(c) && !quoted:
			if len(out) > 0 {
				out = append(out, c)
			}
			continue
		case !quoted && (c == ';' || c == '#'):
			p.skipLine()
			return string(out[:trimmed]), true
		case c == '"':
			quoted = !quoted
			// git keeps the space before a quote only if a character follows, as here
			continue
		case c == '\\':
			switch c = p.next(); c {
			case '\n':
				if p.ended {
					return "", false
				}
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", false
			}
		}
		out = append(out, c)
		trimmed = len(out)
	}
}

// remove returns the text without the given settings. The settings must come from parse for the same
// text. All other bytes stay unchanged.
func remove(text []byte, drop []setting) []byte {
	out, at := make([]byte, 0, len(text)), 0
	for _, s := range drop {
		out = append(out, text[at:s.start]...)
		at = s.end
	}
	return append(out, text[at:]...)
}

// isSpace reports whether git treats a character as space.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isLetter(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }

func isKeyChar(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '-' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
