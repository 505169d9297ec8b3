package pattern

// lead chooses the required text to search for first, and decides whether to check a line for the others before running
// the automaton. The longest text is often in every other line ("export function "), while another text is rare. lead
// learns that from the searched text.
type lead struct {
	leading int
	// learnt is the number of bytes examined to choose the leading text. places counts the occurrences of each text in
	// them.
	learnt int
	places [mostRequired]int
	// looked counts the lines checked for the other texts, and lacking those without one of them.
	looked, lacking int
}

const (
	// learnFrom is the number of bytes from which a matcher learns which text is the rarest. Bytes that are searched
	// again after a match count again.
	learnFrom = 32 << 10
	// lookFirst is the number of lines that are always checked for the other texts. After that, lines are checked as
	// long as at least one of lookLacking lines lacked a text.
	lookFirst, lookLacking = 64, 8
)

// learn counts the required texts in the buffer to be searched.
func (l *lead) learn(required []needle, buf []byte) {
	if len(required) < 2 || l.learnt >= learnFrom {
		return
	}
	buf = buf[:min(len(buf), learnFrom-l.learnt)]
	l.learnt += len(buf)
	for k := range required {
		l.places[k] += required[k].count(buf)
	}
	for k, n := range l.places[:len(required)] {
		if n < l.places[l.leading] {
			l.leading = k
		}
	}
}

// has reports whether a line that contains the leading text contains the others too. It returns true unchecked if checks
// rarely reject lines.
func (l *lead) has(required []needle, line []byte) bool {
	if len(required) < 2 || l.looked >= lookFirst && l.lacking < l.looked/lookLacking {
		return true
	}
	l.looked++
	for k := range required {
		if k != l.leading && required[k].next(line) < 0 {
			l.lacking++
			return false
		}
	}
	return true
}
