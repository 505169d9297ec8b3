package text

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// mixture describes a damaged text or a text whose lines have different encodings.
type mixture struct {
	rest  Encoding // the encoding of the lines that are not UTF-8; empty if it is not certain
	line  int      // number of the first line that is not UTF-8
	lines int      // number of lines that are not UTF-8
}

func (m *mixture) String() string {
	what := "not UTF-8"
	if m.rest != "" {
		what = string(m.rest)
	}
	if m.lines == 1 {
		return fmt.Sprintf("line %d is %s and the others are UTF-8", m.line, what)
	}
	return fmt.Sprintf("%d lines are %s, the first is line %d, and others are UTF-8", m.lines, what, m.line)
}

// mixed describes a text that has lines in UTF-8 and lines in another encoding. If the UTF-8 lines can be
// valid UTF-8 by chance, it returns nil.
func mixed(data []byte) *mixture {
	m := &mixture{}
	evidence, n := 0, 0
	for line := range bytes.Lines(data) {
		n++
		if isASCII(line) {
			continue
		}
		if utf8.Valid(line) {
			evidence = max(evidence, surprise(line))
			continue
		}
		if m.lines++; m.lines == 1 {
			m.line = n
		}
	}
	// With this number of bits, one line in 16 million is valid UTF-8 by chance.
	const enough = 24
	if m.lines == 0 || evidence < enough {
		return nil
	}
	return m
}

// surprise estimates how improbable it is that a line in another encoding is valid UTF-8. The result is the negative
// binary logarithm of the probability.
func surprise(line []byte) (n int) {
	for len(line) > 0 {
		_, size := utf8.DecodeRune(line)
		n += [...]int{0, 0, 2, 5, 8}[size]
		line = line[size:]
	}
	return n
}

// decodeMixed decodes the lines of a mixture, each in its own encoding.
func decodeMixed(data []byte, m *mixture) *Text {
	var rest []byte
	for line := range bytes.Lines(data) {
		if !utf8.Valid(line) {
			rest = append(rest, line...)
		}
	}
	t := &Text{Encoding: Several, Content: make([]byte, 0, len(data)+len(data)/4)}
	var decoded []byte
	if d := detect(rest); d != nil {
		m.rest, decoded = d.Encoding, d.Content
	} else {
		t.unsure, decoded = true, decodeWindows1252(rest)
	}
	for line := range bytes.Lines(data) {
		if utf8.Valid(line) {
			t.Content = append(t.Content, line...)
			continue
		}
		end := bytes.IndexByte(decoded, '\n') + 1
		if end == 0 {
			end = len(decoded)
		}
		t.Content, decoded = append(t.Content, decoded[:end]...), decoded[end:]
	}
	t.flaw = m.String()
	return t
}
