package strategy

import (
	"fmt"
	"strings"
)

const (
	maxShownLines = 12  // maximum number of lines in the shown region
	maxShownWidth = 160 // maximum number of characters of each shown line
	minAlike      = 0.5 // minimum similarity of a shown line
)

// notFound returns the error for an edit whose old_string was not found. The error shows the most similar region of
// the file.
func (s *search) notFound(set Set) error {
	msg := fmt.Sprintf("old_string was not found in %s. Read the file again and copy the text exactly, blanks included.", s.edit.File)
	switch {
	case !s.file.fuzzy():
		msg += fmt.Sprintf(" In a file of more than %d MB or %d lines, old_string must match exactly.", MaxFuzzy>>20, maxFuzzyLines)
	case set != nil && !s.edit.WholeLines: // the hunks of a diff are excluded, because they always have fewer strategies
		msg += fmt.Sprintf(" For this file only these strategies are allowed: %s.", strings.Join(set, ", "))
	}
	if alphanumerics(s.edit.New, 3) == 3 {
		if sites := s.literal(s.edit.New); len(sites) > 0 {
			return &Error{Kind: NotFound, Message: fmt.Sprintf("old_string was not found in %s, but new_string is on line %d. If this edit was made before, there is nothing left to do. Otherwise read the file again and copy the text exactly, blanks included.", s.edit.File, s.file.lineAt(sites[0].from))}
		}
	}
	if near := s.nearest(); near != "" {
		msg += " " + near
	}
	return &Error{Kind: NotFound, Message: msg}
}

// nearest describes the region of the file that is most similar to old_string.
func (s *search) nearest() string {
	if !s.file.fuzzy() || s.file.lines() == 0 {
		return ""
	}
	old := splitLines(s.edit.Old, true)
	at, equal := s.mostEqual(old)
	if equal == 0 {
		if at = s.mostAlike(old); at < 0 {
			return "No line of the file resembles old_string."
		}
	}
	var out strings.Builder
	from, to := max(at, 0), min(at+len(old), s.file.lines())
	fmt.Fprintf(&out, "The most similar text is line %d", from+1)
	if to-from > 1 {
		fmt.Fprintf(&out, " to %d", to)
	}
	difference := ""
	show := from
	for i := range old {
		l := at + i
		if l < from || l >= to || string(trimmedKey(nil, s.file.line(l))) == strings.Trim(old[i], blanks) {
			continue
		}
		difference = fmt.Sprintf("the first difference is line %d, where old_string has\n   %s", l+1, visible(old[i]))
		show = max(from, min(l-maxShownLines/2, to-maxShownLines))
		break
	}
	out.WriteString(" (· is a space, → a tab):\n")
	for l := show; l < min(to, show+maxShownLines); l++ {
		fmt.Fprintf(&out, "%d| %s\n", l+1, visible(string(s.file.line(l))))
	}
	if difference != "" {
		out.WriteString(difference)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// mostEqual finds the position in the file at which old_string has the most lines in common with the file. It returns
// the line number of the position and the number of equal lines.
func (s *search) mostEqual(old []string) (at, equal int) {
	const rare = 50 // lines that occur more often are ignored
	where := make(map[string][]int)
	for i, line := range old {
		if k := string(normalKey(nil, []byte(line))); alphanumerics(k, 3) == 3 && len(where[k]) < rare {
			where[k] = append(where[k], i)
		}
	}
	votes := make(map[int]int)
	seen := make(map[string]int)
	var buf []byte
	for i := range s.file.lines() {
		buf = normalKey(buf[:0], s.file.line(i))
		in := where[string(buf)]
		if len(in) == 0 {
			continue
		}
		if seen[string(buf)]++; seen[string(buf)] > rare {
			continue
		}
		for _, j := range in {
			votes[i-j]++
		}
	}
	for offset, n := range votes {
		if n > equal || n == equal && offset < at {
			at, equal = offset, n
		}
	}
	return at, equal
}

// mostAlike aligns the longest line of old_string with the most similar line of the file. It returns the line of the
// file at which old_string begins in this alignment. If no line is similar enough, it returns -1.
func (s *search) mostAlike(old []string) int {
	longest := 0
	for i, line := range old {
		if len(strings.Trim(line, blanks)) > len(strings.Trim(old[longest], blanks)) {
			longest = i
		}
	}
	want := strings.Trim(old[longest], blanks)
	if len(want) > 500 {
		return -1
	}
	c := &comparison{s: s, cells: maxEditCells / 4} // use only a quarter of the work limit, because the result is only a hint
	best, similarity := -1, minAlike
	for i := range s.file.lines() {
		line := strings.Trim(string(s.file.line(i)), blanks)
		if short, long := min(len(line), len(want)), max(len(line), len(want)); short*2 < long {
			continue
		}
		n, ok := c.similarity(want, line)
		if !ok {
			break
		}
		if n > similarity {
			best, similarity = i, n
		}
	}
	if best < 0 {
		return -1
	}
	return max(0, best-longest)
}

// visible makes the blanks at the ends of a line visible and shortens long lines.
func visible(line string) string {
	body := strings.TrimRight(strings.TrimLeft(line, " \t"), " \t")
	head := indent(line)
	tail := strings.TrimPrefix(line[len(head):], body)
	show := strings.NewReplacer(" ", "·", "\t", "→")
	body = strings.NewReplacer("\t", "→", "\u00a0", "⍽", "\r", "␍").Replace(body)
	return shorten(show.Replace(head)) + shorten(body) + shorten(show.Replace(tail))
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxShownWidth {
		return string(r[:maxShownWidth]) + "…"
	}
	return s
}
