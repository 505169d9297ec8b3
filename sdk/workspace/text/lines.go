package text

import "bytes"

// LineEnding is the kind of the line endings of a text.
type LineEnding string

// The line endings.
const (
	NoLines LineEnding = "none" // there is no line ending at all
	LF      LineEnding = "lf"
	CRLF    LineEnding = "crlf"
	CR      LineEnding = "cr"
	Mixed   LineEnding = "mixed"
)

// LineEndings counts the line endings of a text.
type LineEndings struct {
	LF, CRLF, CR int
	// Final reports whether the text ends with one.
	Final bool
}

// CountLineEndings counts the line endings of the whole text.
func CountLineEndings(content []byte) LineEndings {
	n := LineEndings{LF: bytes.Count(content, []byte{'\n'})}
	if bytes.IndexByte(content, '\r') >= 0 {
		n.CRLF = bytes.Count(content, []byte("\r\n"))
		n.LF -= n.CRLF
		n.CR = bytes.Count(content, []byte{'\r'}) - n.CRLF
	}
	if len(content) > 0 {
		last := content[len(content)-1]
		n.Final = last == '\n' || last == '\r' && n.Kind() == CR
	}
	return n
}

// Kind returns the ending that the counts mean. A carriage return alone ends lines only in a text
// that has no line feed.
func (n LineEndings) Kind() LineEnding {
	switch {
	case n.LF > 0 && n.CRLF > 0:
		return Mixed
	case n.CRLF > 0:
		return CRLF
	case n.LF > 0:
		return LF
	case n.CR > 0:
		return CR
	}
	return NoLines
}

// Main returns the ending that most lines have, or LF if there is none.
func (n LineEndings) Main() LineEnding {
	switch {
	case n.CRLF > n.LF:
		return CRLF
	case n.LF == 0 && n.CR > 0:
		return CR
	}
	return LF
}

// Bytes returns the ending as it is written. It returns a line feed for NoLines and Mixed.
func (e LineEnding) Bytes() string {
	switch e {
	case CRLF:
		return "\r\n"
	case CR:
		return "\r"
	}
	return "\n"
}

// Normalize returns content with the ending e, which is LF, CRLF or CR, on all lines.
func (e LineEnding) Normalize(content []byte) []byte {
	if bytes.IndexByte(content, '\r') >= 0 {
		content = bytes.ReplaceAll(content, []byte("\r\n"), []byte{'\n'})
		content = bytes.ReplaceAll(content, []byte{'\r'}, []byte{'\n'})
	}
	if end := e.Bytes(); end != "\n" {
		content = bytes.ReplaceAll(content, []byte{'\n'}, []byte(end))
	}
	return content
}
