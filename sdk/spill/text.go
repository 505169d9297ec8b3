package spill

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// lineReach is the maximum distance between a length limit and a line break. Within this distance, text is cut at
// the line break.
const lineReach = 2048

// cutEnd returns at most n bytes from the beginning of b. It cuts at a line break near the limit if possible, and
// otherwise between runes.
func cutEnd(b []byte, n int) []byte {
	if n >= len(b) {
		return b
	}
	b = b[:n]
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 && n-i <= min(lineReach, n/2) {
		return b[:i+1]
	}
	return b[:len(b)-PartialRune(b)]
}

// cutStart returns at most n bytes from the end of b. It cuts at a line break near the limit if possible, and
// otherwise between runes.
func cutStart(b []byte, n int) []byte {
	if n >= len(b) {
		return b
	}
	if b[len(b)-n-1] == '\n' {
		return b[len(b)-n:]
	}
	b = b[len(b)-n:]
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 <= min(lineReach, n/2) {
		return b[i+1:]
	}
	for k := 0; k < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); k++ {
		b = b[1:]
	}
	return b
}

// PartialRune returns the length of an incomplete rune at the end of b.
func PartialRune(b []byte) int {
	for k := 1; k <= min(len(b), utf8.UTFMax-1); k++ {
		if tail := b[len(b)-k:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return k
		}
	}
	return 0
}

// validText converts b to a string. It replaces each byte that is not UTF-8 by U+FFFD.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.Grow(len(b) + len(b)/8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}
