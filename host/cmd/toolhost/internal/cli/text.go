package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Printable replaces those characters of a line that could control the terminal, or that a reader cannot see, by visible
// forms: escape by ␛, others such as \u202e by their number. Text from a plugin or a model can contain such characters.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			fmt.Fprintf(&b, `\x%02x`, s[i])
			continue
		}
		writeVisible(&b, r)
	}
	return b.String()
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

// PrintText writes a text for [Screen]. It adds a final line feed if the text has none. It writes nothing for an empty
// text. A closed pipe ends the program by a signal.
func PrintText(f *os.File, s string) {
	if s == "" {
		return
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	WriteText(f, s)
}

// WriteText is like PrintText, but adds nothing.
func WriteText(f *os.File, s string) {
	w := Screen(f)
	_, _ = io.WriteString(w, s)
	_ = w.Flush()
}

// PrintJSON writes a value as one line of JSON. In text for a terminal, characters that could control it are replaced.
func PrintJSON(w io.Writer, v any) error {
	if f, ok := w.(*os.File); ok {
		screen := Screen(f)
		defer screen.Flush() //nolint:errcheck // a line of JSON leaves nothing
		w = screen
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
