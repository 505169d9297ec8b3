package strategy

import (
	"strings"
	"unicode"
)

// These thresholds decide whether a block of the file matches old_string. The block must meet all of them.
const (
	minAnchor     = 4    // minimum number of letters and digits in the first or the last line
	minMiddle     = 10   // minimum number of letters and digits between the first and last line
	minAverage    = 0.90 // minimum average similarity of the lines between the first and last line
	minLine       = 0.75 // minimum similarity of each line between the first and last line
	maxDiffering  = 4    // each group of this number of lines can contain one differing line
	minTypo       = 4    // minimum length of a word that can be misspelled
	minTypoLike   = 0.7  // minimum similarity of a word and its misspelling
	minLead       = 0.12 // minimum difference in similarity between the best and the second-best block
	maxEditCells  = 4 << 20
	maxCandidates = 20_000
)

// findAnchored finds a block by its first and last line. The lines in between can differ from old_string by typing
// mistakes.
func findAnchored(s *search) (match, error) {
	m := s.match(nil)
	old := splitLines(s.edit.Old, true)
	n := len(old)
	if n < 3 || n > s.file.lines() {
		return m, nil
	}
	first, last := strings.Trim(old[0], blanks), strings.Trim(old[n-1], blanks)
	middle := 0
	for _, line := range old[1 : n-1] {
		middle += alphanumerics(line, minMiddle)
	}
	if first == "" || last == "" || middle < minMiddle ||
		max(alphanumerics(first, minAnchor), alphanumerics(last, minAnchor)) < minAnchor {
		return m, nil
	}
	c := &comparison{s: s, old: old, cells: maxEditCells}
	var best, second, candidates = -1, -1.0, 0
	for i := 0; i+n <= s.file.lines(); i++ {
		if string(trimmedKey(nil, s.file.line(i))) != first || string(trimmedKey(nil, s.file.line(i+n-1))) != last {
			continue
		}
		if candidates++; candidates > maxCandidates {
			return m, nil
		}
		average, ok := c.average(i)
		if !ok {
			return m, nil // the work limit is exceeded because the block is too large
		}
		if best < 0 || average > m.similarity {
			if best >= 0 {
				second = max(second, m.similarity)
			}
			best, m.similarity = i, average
		} else {
			second = max(second, average)
		}
		if second > 1-minLead {
			return m, nil // the match is ambiguous: no block can exceed the second-best block by minLead
		}
	}
	if best < 0 || m.similarity < minAverage || second > m.similarity-minLead {
		return m, nil
	}
	if m.typos = c.slips(best); m.typos == nil {
		return m, nil
	}
	m.sites = []site{s.whole(best, n)}
	return m, nil
}

// comparison compares old_string with blocks of the file. The field "cells" limits the remaining work. It is the number
// of cells of comparison tables that can still be computed.
type comparison struct {
	s     *search
	old   []string
	cells int
}

// average returns the average similarity of the lines between the first and the last line of a block. The result "ok"
// is false if the comparison would exceed the work limit.
func (c *comparison) average(at int) (similarity float64, ok bool) {
	sum, lines := 0.0, 0
	for i := 1; i < len(c.old)-1; i++ {
		old, ours := strings.Trim(c.old[i], blanks), strings.Trim(string(c.s.file.line(at+i)), blanks)
		if old == "" && ours == "" {
			continue
		}
		lines++
		if old == ours {
			sum++
			continue
		}
		one, ok := c.similarity(old, ours)
		if !ok {
			return 0, false
		}
		sum += one
	}
	if lines == 0 {
		return 0, true
	}
	return sum / float64(lines), true
}

func (c *comparison) similarity(a, b string) (float64, bool) {
	x, y := []rune(a), []rune(b)
	longest := max(len(x), len(y))
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if c.cells -= len(x) * len(y); c.cells < 0 {
		return 0, false
	}
	return 1 - float64(distance(x, y))/float64(max(longest, 1)), true
}

// distance returns the edit distance of two texts. Swapping two neighbouring characters counts as one edit (optimal
// string alignment).
func distance(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// slips returns the misspelled words of old_string. If a line differs by more than typing mistakes, the result is nil.
// If only commas or semicolons differ, the result is empty but not nil.
func (c *comparison) slips(at int) []string {
	differing, unequal := 0, false
	typos := []string{}
	for i := 1; i < len(c.old)-1; i++ {
		old, ours := strings.Trim(c.old[i], blanks), strings.Trim(string(c.s.file.line(at+i)), blanks)
		if old == ours {
			continue
		}
		similarity, ok := c.similarity(old, ours)
		if differing++; !ok || similarity < minLine || differing > max(1, (len(c.old)-2)/maxDiffering) {
			return nil
		}
		words, ok := c.slip(tokens(old), tokens(ours))
		if !ok {
			return nil
		}
		typos = append(typos, words...)
		unequal = unequal || string(normalKey(nil, []byte(old))) != string(normalKey(nil, []byte(ours)))
	}
	if !unequal {
		return nil // equal blocks are found by other strategies
	}
	return typos
}

// slip compares the tokens of two lines. The result "ok" is false if the lines differ by more than typing mistakes.
func (c *comparison) slip(old, ours []string) (typos []string, ok bool) {
	for _, h := range diffLines(old, ours) {
		was, is := old[h.oldFrom:h.oldTo], ours[h.newFrom:h.newTo]
		if len(was) != len(is) {
			for _, t := range append(was[:len(was):len(was)], is...) {
				if t != "," && t != ";" {
					return nil, false
				}
			}
			continue
		}
		for i := range was {
			if !c.typo(was[i], is[i]) {
				return nil, false
			}
			typos = append(typos, was[i])
		}
	}
	return typos, true
}

// typo reports whether the first word is a misspelling of the second word. A misspelling has one inserted, missing or
// wrong letter, or two swapped letters. A word that the file contains is not a misspelling. Words such as pos_x and
// pos_y are not misspellings either, because such short parts of names differ on purpose.
func (c *comparison) typo(was, is string) bool {
	a, b := []rune(was), []rune(is)
	if min(len(a), len(b)) < minTypo || strings.EqualFold(was, is) || digits(was) != digits(is) {
		return false
	}
	d := distance(a, b)
	if d > 1 || 1-float64(d)/float64(max(len(a), len(b))) < minTypoLike {
		return false
	}
	x, y := parts(was), parts(is)
	if len(x) == len(y) {
		for i := range x {
			if x[i] != y[i] && min(len(x[i]), len(y[i])) < minTypo-1 {
				return false
			}
		}
	}
	return !c.s.file.hasWord(was)
}

// tokens splits a line into words and other single characters. It omits blanks.
func tokens(line string) []string {
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for _, r := range line {
		if isWord(r) {
			word.WriteRune(r)
			continue
		}
		flush()
		if !isBlank(r) {
			out = append(out, string(r))
		}
	}
	flush()
	return out
}

// parts splits a name into words: at underscores and before capital letters.
func parts(name string) []string {
	var out []string
	begin, lower := 0, false
	for i, r := range name {
		if r == '_' || lower && unicode.IsUpper(r) {
			out, begin = append(out, name[begin:i]), i
		}
		lower = unicode.IsLower(r)
	}
	return append(out, name[begin:])
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// hasWord reports whether the file contains a word.
func (f *file) hasWord(word string) bool {
	text := string(f.lf)
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !isWord(rune(text[from-1]))) && (to == len(text) || !isWord(rune(text[to]))) {
			return true
		}
		at = to
	}
}

// repeats returns the first misspelled word that also occurs in the text. It returns "" if the text contains
// none of the words.
func repeats(text string, typos []string) string {
	if len(typos) == 0 {
		return ""
	}
	for _, t := range tokens(text) {
		for _, typo := range typos {
			if t == typo {
				return t
			}
		}
	}
	return ""
}
