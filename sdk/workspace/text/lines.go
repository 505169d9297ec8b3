package text

import "bytes"

// LineEnding is a kind of line ending.
type LineEnding string

// The kinds of line endings.
const (
	NoLines LineEnding = "none" // the text contains no line endings
	LF      LineEnding = "lf"
	CRLF    LineEnding = "crlf"
	CR      LineEnding = "cr"
	Mixed   LineEnding = "mixed"
)

// LineEndings contains the number of line endings of each kind in a text.
type LineEndings struct {
	LF, CRLF, CR int
	// Final reports whether the text ends with a line ending.
	Final bool
}

// CountLineEndings counts the line endings in the whole text.
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

// Kind returns the kind of line ending of a text with these counts. A single carriage return counts as a line ending
// only if the text contains no line feed.
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

// Main returns the most frequent line ending. It returns LF for a text without line endings.
func (n LineEndings) Main() LineEnding {
	switch {
	case n.CRLF > n.LF:
		return CRLF
	case n.LF == 0 && n.CR > 0:
		return CR
	}
	return LF
}

// Bytes returns the characters of the line ending. It returns a line feed for NoLines and Mixed.
func (e LineEnding) Bytes() string {
	switch e {
	case CRLF:
		return "\r\n"
	case CR:
		return "\r"
	}
	return "\n"
}

// Normalize replaces all line endings of content by e, which must be LF, CRLF or CR.
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
