package notebook

import (
	"bytes"
	"encoding/json"
	"strings"
)

// style is the form in which a file writes JSON.
type style struct {
	newline string // empty for a text in one line
	unit    string // the indentation of one level
	members string // the indentation of a cell's members
	colon   string // between a name and its value
	comma   string // between two values in one line
}

// styleOf returns the style of a notebook with the given members.
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

// of returns the style of the cell that begins at an offset.
func (s style) of(content []byte, start int) style {
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
			break // after the last line feed
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

// around returns the texts before and after the only cell.
func (s style) around() (lead, tail []byte) {
	if s.newline == "" {
		return nil, nil
	}
	return []byte(s.newline + strings.TrimSuffix(s.members, s.unit)), []byte(s.newline + s.unit)
}

// encode returns a string as JSON. It escapes only what JSON requires.
func encode(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
