package strategy

import "strings"

// findWithoutEdges searches for old_string without some of the blank lines at its beginning and end. It omits as few
// blank lines as possible. At each end, it then removes the same number of blank lines from new_string. If old_string
// has more blank lines at an end than new_string, the number for that end is reduced by the difference.
func findWithoutEdges(s *search) (match, error) {
	head, tail := edges(s.edit.Old)
	if head+tail == 0 {
		return match{}, nil
	}
	core := cut(s.edit.Old, head, tail)
	n := len(splitLines(core, true))
	for _, by := range []key{trimmedKey, normalKey} {
		var sites []site
		least, keepHead, keepTail, alike := head+tail, 0, 0, true
		for _, st := range s.equalLines(core, by) {
			h, t := s.blanksAround(st.first, n, head, tail)
			switch lost := head - h + tail - t; {
			case lost < least:
				least, keepHead, keepTail, sites, alike = lost, h, t, nil, true
			case lost > least:
				continue
			default:
				alike = alike && (len(sites) == 0 || h == keepHead)
			}
			sites = append(sites, s.whole(st.first-h, n+h+t))
		}
		if s.edit.All && !alike {
			return match{}, refused("the blank lines at the edges of old_string differ from place to place. Give old_string and new_string without these blank lines.")
		}
		if len(sites) > 0 {
			h, t := head-keepHead, tail-keepTail
			newHead, newTail := edges(s.edit.New)
			return match{
				sites: sites, old: cut(s.edit.Old, h, t), similarity: 1,
				new: cut(s.edit.New, shared(h, head, newHead), shared(t, tail, newTail)),
			}, nil
		}
	}
	return match{}, nil
}

// blanksAround counts the blank lines before and after a range of n lines in the file. It counts at most head lines
// before the range and at most tail lines after the range.
func (s *search) blanksAround(first, n, head, tail int) (before, after int) {
	blank := func(i int) bool { return i >= 0 && i < s.file.lines() && isBlankLine(string(s.file.line(i))) }
	for before < head && blank(first-before-1) {
		before++
	}
	for after < tail && blank(first+n+after) {
		after++
	}
	return before, after
}

// shared returns the number of blank lines to remove from one end of new_string. The parameter "cut" is the
// number of blank lines that were removed from old_string. If old_string has more blank lines at that end than
// new_string, the result is reduced by the difference.
func shared(cut, old, theirs int) int { return min(theirs, max(0, cut-max(0, old-theirs))) }

// edges counts the blank lines at the beginning and at the end of a text. If all lines are blank, it returns
// 0, 0.
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

// cut removes the given numbers of lines from the beginning and the end of a text. It keeps a line feed at the end
// of the text.
func cut(text string, head, tail int) string {
	lines := splitLines(text, true)
	out := strings.Join(lines[head:len(lines)-tail], "\n")
	if strings.HasSuffix(text, "\n") {
		out += "\n"
	}
	return out
}
