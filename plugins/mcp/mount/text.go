package mount

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a server's texts, in bytes.
const (
	maxDescription = 4 << 10
	maxMessage     = 2 << 10
)

// escapes matches escape sequences of terminals.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\x1b[\\]PX^_]|[\u009d\u0090])[^\a\x1b\u009c]*(?:\a|\x1b\\\\|\u009c)?|\x1b[ -/]*[0-~]?")

// clean removes characters of a server's text that a person does not see but a terminal or a model obeys: escape
// sequences, control characters, direction marks, tags and other invisible characters. It keeps joiners, which scripts
// and emoji need. It cuts a text longer than limit bytes.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = escapes.ReplaceAllString(s, "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r >= 0xE0000 && r <= 0xE0FFF:
			return -1
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	n := limit - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
