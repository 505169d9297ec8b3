// Package suggest finds what somebody probably meant by a name that does not exist.
package suggest

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// maxName bounds the work for one comparison; longer names are cut.
const maxName = 128

// Closest returns the candidates that are near enough to name to be a likely slip:
// equal but for case, dashes and underscores, or within a third of its length in
// edits, or one the beginning of the other. The nearest comes first, at most n.
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

// DidYouMean gives ` Did you mean "x"?`, or nothing when no candidate is near.
func DidYouMean(name string, candidates []string) string {
	c := Closest(name, candidates, 3)
	if len(c) == 0 {
		return ""
	}
	return ` Did you mean "` + strings.Join(c, `" or "`) + `"?`
}

// Fold brings a name to the form in which names are compared: lower case, no
// dashes or underscores.
func Fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// Distance is the number of single-character edits (insert, delete, replace, swap
// of neighbours) between two names, of which the first 128 bytes count.
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
