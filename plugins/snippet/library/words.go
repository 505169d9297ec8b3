package library

import (
	"strings"
	"unicode"
)

// Words returns the words of a query that a search can find. A word without letters and digits cannot be found.
func Words(query string) []string {
	var out []string
	for _, w := range strings.Fields(strings.ReplaceAll(query, "\x00", " ")) {
		if strings.IndexFunc(w, wordRune) >= 0 {
			out = append(out, w)
		}
	}
	return out
}

// wordRune reports whether a character is part of a word in the index.
func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// parts returns the distinct parts of the camelCase words in a text. For example, "parseHTTPBody" has the
// parts "parse HTTP Body".
func parts(text string) string {
	seen := make(map[string]bool)
	var out []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !wordRune(r) }) {
		if seen[word] {
			continue
		}
		seen[word] = true
		runes := []rune(word)
		from := 0
		for i := 1; i <= len(runes); i++ {
			switch {
			case i == len(runes):
				if from == 0 {
					continue // a word with a single part adds nothing
				}
			case unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]): // separates parse and Body
			case unicode.IsUpper(runes[i]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]): // separates HTTP and Body
			default:
				continue
			}
			if part := string(runes[from:i]); !seen[part] {
				seen[part] = true
				out = append(out, part)
			}
			from = i
		}
	}
	return strings.Join(out, " ")
}
