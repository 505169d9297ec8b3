// Package suggest finds names that are similar to a misspelled name. [DidYouMean] returns a sentence for a message.
// [Closest] returns the similar names.
package suggest

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// maxName is the maximum number of bytes of a name that are compared. It limits the running time.
const maxName = 128

// Closest returns at most n candidates that are similar to name, the most similar first. A candidate is similar if it
// meets one of three conditions. It equals name except for case, dashes and underscores. The number of edits between
// candidate and name is at most a third of the name's length. It is a prefix of name, or name is a prefix of it.
func Closest(name string, candidates []string, n int) []string {
	type near struct {
		name     string
		distance int
	}
	folded := Fold(name)
	limit := max(1, utf8.RuneCountInString(folded[:min(len(folded), maxName)])/3)
	var found []near
	for _, c := range candidates {
		f := Fold(c)
		d := Distance(folded, f)
		switch {
		case d <= limit:
		case len(folded) >= 3 && strings.HasPrefix(f, folded), len(f) >= 3 && strings.HasPrefix(folded, f):
			d = limit + 1
		default:
			continue
		}
		found = append(found, near{c, d})
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].distance < found[j].distance })
	var out []string
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// DidYouMean returns ` Did you mean "x"?` for the most similar candidate. If no candidate is similar, it returns an
// empty string.
func DidYouMean(name string, candidates []string) string {
	c := Closest(name, candidates, 3)
	if len(c) == 0 {
		return ""
	}
	return ` Did you mean "` + strings.Join(c, `" or "`) + `"?`
}

var separators = strings.NewReplacer("-", "", "_", "")

// Fold returns the form of a name that is used for comparisons: lower case without dashes and underscores.
func Fold(s string) string {
	return strings.ToLower(separators.Replace(s))
}

// Distance returns the number of single-character edits between two names. Edits are insertions, deletions,
// replacements and swaps of neighbours. Only the first 128 bytes of each name are compared.
func Distance(a, b string) int {
	ra, rb := []rune(a[:min(len(a), maxName)]), []rune(b[:min(len(b), maxName)])
	older, prev, cur := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		cur[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
		older, prev, cur = prev, cur, older
	}
	return prev[len(rb)]
}
