package strategy

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// blanks contains the characters that are ignored at the ends of lines.
const blanks = " \t\r\f\v"

// key is a function that appends the normalized form of a line to buf. Lines are compared by their normalized forms.
type key func(buf, line []byte) []byte

func trimmedKey(buf, line []byte) []byte { return append(buf, bytes.Trim(line, blanks)...) }

// normalKey appends the normalized form of a line: each run of blanks becomes one blank, typographic characters
// become ASCII, and characters are composed (NFC).
func normalKey(buf, line []byte) []byte {
	begin := len(buf)
	wide, pending := false, false
	for i := 0; i < len(line); {
		if word := plainRun(line[i:]); word > 0 {
			if pending {
				buf, pending = append(buf, ' '), false
			}
			buf = append(buf, line[i:i+word]...)
			i += word
			continue
		}
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		switch folded, special := fold(r); {
		case isBlank(r):
			pending = len(buf) > begin
		default:
			if pending {
				buf, pending = append(buf, ' '), false
			}
			switch {
			case special:
				buf = append(buf, folded...)
			default:
				wide = wide || r >= utf8.RuneSelf
				buf = append(buf, line[i:i+size]...)
			}
		}
		i += size
	}
	if wide && !norm.NFC.IsNormal(buf[begin:]) {
		buf = append(buf[:begin], norm.NFC.Bytes(buf[begin:])...)
	}
	return buf
}

// plainRun returns the length of the initial run of ASCII characters that are not blanks.
func plainRun(line []byte) int {
	for i, c := range line {
		if c >= utf8.RuneSelf || c <= ' ' && isBlank(rune(c)) {
			return i
		}
	}
	return len(line)
}

func isBlank(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r == ' ' || r == '\t' || r == '\r' || r == '\f' || r == '\v'
	default:
		return unicode.Is(unicode.Zs, r)
	}
}

// fold returns the ASCII form of a typographic character.
func fold(r rune) (string, bool) {
	if r < 0xa0 {
		return "", false
	}
	switch r {
	case '‘', '’', '‚', '‛', '′':
		return "'", true
	case '“', '”', '„', '‟', '″':
		return `"`, true
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return "-", true
	case '…':
		return "...", true
	case '\u200b', '\ufeff':
		return "", true
	}
	return "", false
}

// indent returns the spaces and tabs at the beginning of a line.
func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

func isBlankLine(line string) bool { return strings.TrimFunc(line, isBlank) == "" }

// splitLines splits a text into lines. If final is true, a line feed at the end of the text ends the last line. If
// final is false, an empty line follows such a line feed.
func splitLines(text string, final bool) []string {
	if final {
		text = strings.TrimSuffix(text, "\n")
	}
	return strings.Split(text, "\n")
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// alphanumerics counts the letters and digits in a text. It stops counting at the limit.
func alphanumerics(s string, limit int) int {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if n++; n >= limit {
				break
			}
		}
	}
	return n
}
