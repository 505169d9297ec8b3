package search

import (
	"strings"
	"unicode/utf8"
)

// cut returns a line of at most limit characters. It keeps the characters around the byte at position at. A limit of 0
// keeps all characters.
func cut(text []byte, at, limit int) Line {
	if limit <= 0 || len(text) <= limit {
		return Line{Text: valid(text)}
	}
	n := utf8.RuneCount(text)
	if n <= limit {
		return Line{Text: valid(text)}
	}
	before := 0
	if ahead := utf8.RuneCount(text[:at]); ahead > limit*3/4 { // the match would be cut off
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

// valid returns the text with U+FFFD for each invalid sequence. A sequence is as long as the bytes could be the
// beginning of a character.
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
