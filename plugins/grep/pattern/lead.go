package pattern

// lead learns which required text is the rarest in the searched text. The rarest text is searched for first. The
// longest text is a bad choice if it occurs in many lines, as "export function " does. lead also decides whether a line
// is checked for the other required texts before the automaton runs.
type lead struct {
	leading int
	// learnt is the number of bytes that were examined to find the rarest text. The field "places" contains
	// the number of occurrences of each required text in these bytes.
	learnt int
	places [mostRequired]int
	// looked is the number of lines that have the leading text and were checked for the other required
	// texts. The field "lacking" is the number of these lines that lack at least one of the other texts.
	looked, lacking int
}

const (
	// learnFrom is the number of bytes that a matcher examines to learn which text is the rarest. Bytes that are
	// searched again after a match are counted again.
	learnFrom = 32 << 10
	// lookFirst is the number of lines that are always checked for the other texts. Later lines are checked only if at
	// least one in lookLacking of the lines checked so far failed the check.
	lookFirst, lookLacking = 64, 8
)

// learn counts how often each required text occurs in the buffer that is searched next.
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

// has reports whether a line that contains the rarest text also contains the other required texts. If checks
// rarely reject lines, it returns true without a check.
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
