package listing

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable quotes a name that would not be read as it is: with line feeds or
// other control characters in it, or not UTF-8.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
