package mount

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The following constants limit the texts of a server, in bytes.
const (
	maxDescription = 4 << 10
	maxMessage     = 2 << 10
)

// This expression matches escape sequences for terminals.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\x1b[\\]PX^_]|[\u009d\u0090])[^\a\x1b\u009c]*(?:\a|\x1b\\\\|\u009c)?|\x1b[ -/]*[0-~]?")

// clean removes invisible characters from a server's text. A terminal or a model could obey these characters:
// escape sequences, control characters, direction marks and tags. Joiners remain, because scripts and
// emoji need them. The text is shortened to limit bytes.
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
