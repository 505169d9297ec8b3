package notebook

import (
	"bytes"
	"encoding/json"
	"strings"
)

// style is the formatting of a JSON file: line breaks, indentation and blanks.
type style struct {
	newline string // text of a line break; empty if the JSON is a single line
	unit    string // indentation of one level
	members string // indentation of a cell's members
	colon   string // separator of a name and its value
	comma   string // separator of two values in one line
}

// styleOf returns the style of a notebook. The argument "top" contains the members of its top-level object.
func styleOf(content []byte, top []member) style {
	s := style{colon: ": ", comma: ", "}
	if len(top) == 0 {
		return s
	}
	m := top[0]
	colon := string(content[skipString(content, m.at):m.value.start])
	if colon == ":" {
		s.colon, s.comma = ":", ","
	}
	lead := string(content[m.lead:m.at])
	if i := strings.LastIndexByte(lead, '\n'); i >= 0 {
		s.newline, s.unit = newline(lead), lead[i+1:]
		s.members = strings.Repeat(s.unit, 3)
	}
	return s
}

func newline(lead string) string {
	if strings.Contains(lead, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// cellStyle returns the style of the cell that begins at an offset.
func (s style) cellStyle(content []byte, start int) style {
	all, err := members(content, start)
	if err != nil || len(all) == 0 {
		return s
	}
	lead := string(content[all[0].lead:all[0].at])
	i := strings.LastIndexByte(lead, '\n')
	if i < 0 {
		s.newline, s.unit, s.members = "", "", ""
		return s
	}
	s.newline, s.members = newline(lead), lead[i+1:]
	return s
}

// cell formats a cell.
func (s style) cell(c *cell) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range c.names {
		switch {
		case s.newline == "" && i > 0:
			b.WriteString(s.comma)
		case i > 0:
			b.WriteByte(',')
		}
		if s.newline != "" {
			b.WriteString(s.newline + s.members)
		}
		b.Write(encode(name))
		b.WriteString(s.colon)
		b.Write(c.values[name])
	}
	if s.newline != "" {
		b.WriteString(s.newline + strings.TrimSuffix(s.members, s.unit))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// source formats a source as an array of lines.
func (s style) source(text string) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, line := range strings.SplitAfter(text, "\n") {
		if line == "" {
			break // no text follows the last line feed
		}
		switch {
		case s.newline == "" && i > 0:
			b.WriteString(s.comma)
		case i > 0:
			b.WriteByte(',')
		}
		if s.newline != "" {
			b.WriteString(s.newline + s.members + s.unit)
		}
		b.Write(encode(line))
	}
	if b.Len() > 1 && s.newline != "" {
		b.WriteString(s.newline + s.members)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// frame returns the texts before and after a cell that is added to a notebook without cells.
func (s style) frame() (lead, tail []byte) {
	if s.newline == "" {
		return nil, nil
	}
	return []byte(s.newline + strings.TrimSuffix(s.members, s.unit)), []byte(s.newline + s.unit)
}

// encode returns a string as JSON. It escapes only the characters that JSON requires to be escaped.
func encode(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // ignore the error: a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
