package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Printable replaces control characters and invisible characters in a line by visible forms. Escape becomes ␛, and
// other characters become their number, such as \u202e. Text from a plugin or a model can contain such characters.
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

// Count formats a number of things, such as "1 file" and "2 files".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Size formats a number of bytes, such as "5.5 MiB".
func Size(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
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

// PrintText writes a text through [New]. If the text does not end with a line feed, PrintText adds a line feed. It
// writes nothing for an empty text. If the output is a closed pipe, a signal ends the program.
func PrintText(w io.Writer, s string) {
	if s == "" {
		return
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	WriteText(w, s)
}

// WriteText is like PrintText but adds no line feed.
func WriteText(w io.Writer, s string) {
	out := New(w)
	_, _ = io.WriteString(out, s)
	_ = out.Flush()
}

// PrintJSON writes a value as one line of JSON. For a terminal, it replaces control characters.
func PrintJSON(w io.Writer, v any) error {
	out := New(w)
	defer out.Flush() //nolint:errcheck // a line of JSON leaves no incomplete character
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
