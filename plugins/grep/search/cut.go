package search

import (
	"strings"
	"unicode/utf8"
)

// cut shortens a line to at most limit characters. It keeps the characters around the offset "at". If limit is 0, it
// does not shorten the line.
func cut(text []byte, at, limit int) Line {
	if limit <= 0 || len(text) <= limit {
		return Line{Text: valid(text)}
	}
	n := utf8.RuneCount(text)
	if n <= limit {
		return Line{Text: valid(text)}
	}
	before := 0
	if ahead := utf8.RuneCount(text[:at]); ahead > limit*3/4 { // drop characters at the start to keep the match
		before = min(ahead-limit/4, n-limit)
	}
	start := skip(text, before)
	end := start + skip(text[start:], limit)
	return Line{Text: valid(text[start:end]), CutBefore: before, CutAfter: n - before - limit}
}

// skip returns the length in bytes of the first n characters.
func skip(text []byte, n int) int {
	pos := 0
	for ; n > 0 && pos < len(text); n-- {
		_, size := utf8.DecodeRune(text[pos:])
		pos += size
	}
	return pos
}

// valid returns the text with each invalid sequence replaced by U+FFFD. The truncated encoding of a character counts as
// one sequence.
func valid(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			for n < min(len(text), utf8.UTFMax-1) && !utf8.FullRune(text[:n+1]) {
				n++
			}
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}
