package cli

import (
	"encoding/json"
	"io"
	"strings"
)

// Printable replaces those characters of a line that could control the terminal. Text from a plugin or a model can
// contain such characters.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Clean is like Printable, but keeps line breaks.
func Clean(text string) string {
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, Printable(l))
	}
	return strings.Join(out, "\n")
}

// Indented cleans a text and indents all lines except the first.
func Indented(text string) string { return strings.ReplaceAll(Clean(text), "\n", "\n  ") }

// FirstLine returns the first line of a text.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// PrintText writes a text. It adds a final line feed if the text has none. It writes nothing for an empty text. A closed
// pipe ends the program by a signal.
func PrintText(w io.Writer, s string) {
	if s == "" {
		return
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	_, _ = io.WriteString(w, s)
}

// PrintJSON writes a value as one line of JSON.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
