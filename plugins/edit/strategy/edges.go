package strategy

import "strings"

// maxEdge is how many blank lines an edge may have to be tried without.
const maxEdge = 16

// findWithoutEdges finds old without blank lines at its edges, as few as possible. New
// loses as many; what only old has too many is not in new.
func findWithoutEdges(s *search) (match, error) {
	head, tail := edges(s.edit.Old)
	newHead, newTail := edges(s.edit.New)
	for n := 1; n <= min(head, maxEdge)+min(tail, maxEdge); n++ {
		for h := min(n, head); h >= 0 && n-h <= tail; h-- {
			old := cut(s.edit.Old, h, n-h)
			m := match{sites: s.find(old), old: old, similarity: 1}
			if len(m.sites) == 0 {
				continue
			}
			m.new = cut(s.edit.New, shared(h, head, newHead), shared(n-h, tail, newTail))
			return m, nil
		}
	}
	return match{}, nil
}

// shared gives how many of the blank lines cut from an edge of old are cut from new too:
// those that old has more than new were never in new.
func shared(cut, old, theirs int) int { return min(theirs, max(0, cut-max(0, old-theirs))) }

// edges counts the blank lines at the beginning and the end. There is a line that is not blank.
func edges(text string) (head, tail int) {
	lines := splitLines(text, true)
	for head < len(lines) && isBlankLine(lines[head]) {
		head++
	}
	if head == len(lines) {
		return 0, 0
	}
	for isBlankLine(lines[len(lines)-1-tail]) {
		tail++
	}
	return head, tail
}

// cut takes lines away from the edges. A final line feed stays.
func cut(text string, head, tail int) string {
	lines := splitLines(text, true)
	out := strings.Join(lines[head:len(lines)-tail], "\n")
	if strings.HasSuffix(text, "\n") {
		out += "\n"
	}
	return out
}
