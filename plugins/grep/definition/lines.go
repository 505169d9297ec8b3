package definition

import (
	"bytes"
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

// around returns two texts: the line that contains a symbol's name, and the same line with n lines before and
// after it. The second text is empty if n is 0.
func around(text []byte, s symbol.Symbol, n int) (code, context string) {
	start := bytes.LastIndexByte(text[:s.Offset], '\n') + 1
	end := lineEnd(text, start)
	code = line(text[start:end])
	if n == 0 {
		return code, ""
	}
	from, to := start, end
	for i := 0; i < n && from > 0; i++ {
		from = bytes.LastIndexByte(text[:from-1], '\n') + 1
	}
	for i := 0; i < n && to+1 < len(text); i++ { // the text after the final line break does not count as a line
		to = lineEnd(text, to+1)
	}
	var lines []string
	for l := range bytes.SplitSeq(text[from:to], []byte("\n")) {
		lines = append(lines, line(l))
	}
	return code, strings.Join(lines, "\n")
}

// lineEnd returns the end of the line that begins at the offset "start". The end excludes the line break.
func lineEnd(text []byte, start int) int {
	if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
		return start + i
	}
	return len(text)
}

// line returns a line as results display it.
func line(b []byte) string {
	const longest = 2000
	if b = bytes.TrimSuffix(b, []byte("\r")); len(b) > longest {
		b = b[:longest]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
