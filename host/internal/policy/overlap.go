package policy

import (
	"strings"

	"toolhost.dev/host/internal/script"
)

// token is an element of a pattern: a character, or one of the special values below.
type token rune

const (
	oneChar  token = -1 - iota // any character except a slash
	segment                    // any text without a slash
	anything                   // any text
)

// maxOverlap limits the size of the comparison of two patterns.
const maxOverlap = 1 << 20

// overlap reports whether a path exists that matches both a glob and a text with unknown parts. If pattern is true, the
// text can contain wildcards of a shell. The result can be true although no such path exists, but not the reverse.
func overlap(glob, text string, pattern bool) bool {
	a, b := globTokens(glob), textTokens(text, pattern)
	if len(a)*len(b) > maxOverlap {
		return true
	}
	// reach[j] reports whether the tokens of a so far and b[:j] can match the same text.
	reach := make([]bool, len(b)+1)
	reach[0] = true
	skip(reach, b)
	for _, x := range a {
		next := make([]bool, len(b)+1)
		for j := range reach {
			if !reach[j] {
				continue
			}
			if x == segment || x == anything {
				next[j] = true
			}
			if j < len(b) && (b[j] == segment || b[j] == anything) && meets(x, b[j]) {
				next[j] = true // the token of b continues
			}
			if j < len(b) && meets(x, b[j]) {
				next[j+1] = true
			}
		}
		if x == segment || x == anything {
			for j := range b {
				if next[j] && meets(x, b[j]) {
					next[j+1] = true
				}
			}
		}
		skip(next, b)
		reach = next
	}
	return reach[len(b)]
}

// skip marks the positions that follow when tokens of b match the empty text.
func skip(reach []bool, b []token) {
	for j, t := range b {
		if reach[j] && (t == segment || t == anything) {
			reach[j+1] = true
		}
	}
}

// meets reports whether two tokens can match the same character.
func meets(x, y token) bool {
	if x == anything || y == anything {
		return true
	}
	if x >= 0 && y >= 0 {
		return x == y
	}
	return x != '/' && y != '/'
}

// globTokens converts a glob. A class becomes any character, and alternatives become any text.
func globTokens(glob string) (out []token) {
	runes := []rune(glob)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\\' && i+1 < len(runes):
			i++
			out = append(out, token(runes[i]))
		case r == '*' && i+1 < len(runes) && runes[i+1] == '*':
			for i+1 < len(runes) && runes[i+1] == '*' {
				i++
			}
			if i+1 < len(runes) && runes[i+1] == '/' {
				i++ // ** can match no directory
			}
			if n := len(out); n > 0 && out[n-1] == '/' && i+1 >= len(runes) {
				out = out[:n-1] // a/** also matches a
			}
			out = append(out, anything)
		case r == '*':
			out = append(out, segment)
		case r == '?':
			out = append(out, oneChar)
		case r == '[' || r == '{':
			end := map[rune]rune{'[': ']', '{': '}'}[r]
			for i+1 < len(runes) && runes[i] != end {
				i++
			}
			out = append(out, anything)
		default:
			out = append(out, token(r))
		}
	}
	return out
}

// textTokens converts a path with unknown parts.
func textTokens(text string, pattern bool) (out []token) {
	for _, r := range text {
		switch {
		case string(r) == script.Unknown:
			out = append(out, anything)
		case pattern && r == '*':
			out = append(out, segment)
		case pattern && r == '?':
			out = append(out, oneChar)
		case pattern && strings.ContainsRune("[]", r):
			out = append(out, anything)
		default:
			out = append(out, token(r))
		}
	}
	return out
}
