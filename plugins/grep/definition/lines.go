package definition

import (
	"bytes"
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

// lineReader gives the lines of a text. It finds where they are as it goes on.
type lineReader struct {
	text   []byte
	starts []int // of the lines found so far
}

func newLineReader(text []byte) *lineReader { return &lineReader{text: text, starts: []int{0}} }

// line gives a line, from 1, without its end; ok is false behind the last one.
func (l *lineReader) line(n int) (line string, ok bool) {
	for len(l.starts) < n+1 {
		last := l.starts[len(l.starts)-1]
		i := bytes.IndexByte(l.text[last:], '\n')
		if i < 0 {
			break
		}
		l.starts = append(l.starts, last+i+1)
	}
	if n < 1 || n > len(l.starts) || l.starts[n-1] == len(l.text) && n > 1 {
		return "", false
	}
	end := len(l.text)
	if n < len(l.starts) {
		end = l.starts[n] - 1
	}
	const longest = 2000
	b := bytes.TrimSuffix(l.text[l.starts[n-1]:end], []byte("\r"))
	if len(b) > longest {
		b = b[:longest]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), true
}

// around gives the line with a symbol's name, and that with n lines before and after it.
func (l *lineReader) around(s symbol.Symbol, n int) (code, context string) {
	code, _ = l.line(int(s.Line))
	if n == 0 {
		return code, ""
	}
	var lines []string
	for i := max(1, int(s.Line)-n); i <= int(s.Line)+n; i++ {
		line, ok := l.line(i)
		if !ok {
			break
		}
		lines = append(lines, line)
	}
	return code, strings.Join(lines, "\n")
}
