package strategy

import (
	"strings"
	"unicode/utf8"
)

// plainer returns a replacer that converts typographic characters to ASCII. It covers each typographic character of
// old_string that the file writes only in ASCII. Such a character probably comes from a program between the model and
// this tool. If there is no such character, plainer returns nil.
//
// Such a program changes all quotes, so plainer converts either all quotes or none. The result "mixed" is true if the
// file also has typographic quotes. In this case, nobody knows which quotes new_string should have.
func plainer(old, ours []string) (plain *strings.Replacer, mixed bool) {
	seen := make(map[rune]bool)
	inserted := false // true if quotes were inserted
	for i := range old {
		if old[i] == ours[i] {
			continue
		}
		for _, r := range old[i] {
			if _, special := fold(r); special {
				seen[r] = true
				inserted = inserted || isQuote(r)
			}
		}
	}
	if len(seen) == 0 {
		return nil, false
	}
	for _, r := range quoteRunes {
		seen[r] = inserted
	}
	for _, line := range ours {
		for _, r := range line {
			mixed = mixed || inserted && isQuote(r)
			delete(seen, r)
		}
	}
	var pairs []string
	for r, convert := range seen {
		if to, _ := fold(r); convert {
			pairs = append(pairs, string(r), to)
		}
	}
	return strings.NewReplacer(pairs...), mixed
}

// quoteRunes contains the typographic quotes.
const quoteRunes = "‘’‚‛′“”„‟″"

func isQuote(r rune) bool { return r >= utf8.RuneSelf && strings.ContainsRune(quoteRunes, r) }

// typeset copies the file's typographic characters into the unchanged beginning and end of the new line. It does
// this only if old_string differs from the file's line only in typographic characters.
func typeset(old, theirs, ours string) string {
	if old == ours || keyboard(old) != keyboard(ours) {
		return theirs
	}
	head := commonPrefix(old, theirs)
	tail := commonSuffix(old[head:], theirs[head:])
	from := same(ours, len(keyboard(old[:head])))
	to := same(ours, len(keyboard(old[:len(old)-tail])))
	if from < 0 || to < from {
		return theirs
	}
	return ours[:from] + theirs[head:len(theirs)-tail] + ours[to:]
}

// keyboard replaces the typographic characters of a text by ASCII.
func keyboard(s string) string {
	var out strings.Builder
	for _, r := range s {
		if to, special := fold(r); special {
			out.WriteString(to)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// same converts an offset in the ASCII form of s to an offset in s. It returns -1 if no offset corresponds.
func same(s string, n int) int {
	for i, r := range s {
		if n == 0 {
			return i
		}
		if n < 0 {
			return -1
		}
		n -= len(keyboard(string(r)))
	}
	if n == 0 {
		return len(s)
	}
	return -1
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) || n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

func commonSuffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	for n > 0 && !utf8.RuneStart(a[len(a)-n]) {
		n--
	}
	return n
}
