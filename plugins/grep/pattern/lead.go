package pattern

// lead is which of several required texts is looked for, and whether the others are then looked for in its
// line, before that is given to the automaton. The text that is the longest is often in every other line
// ("export function ") where another is rare: what is searched tells.
type lead struct {
	leading int
	// learnt is how many bytes were looked at for that, and places where in them each of the texts is.
	learnt int
	places [mostRequired]int
	// looked is in how many lines the others were looked for, and lacking in how many one was not there.
	looked, lacking int
}

const (
	// learnFrom is how much a matcher looks at to tell which text is the rarest, in bytes. What it comes to again,
	// behind a match, counts again.
	learnFrom = 32 << 10
	// lookFirst is in how many lines the others are looked for in any case; and then as long as one in
	// lookLacking of them lacks one.
	lookFirst, lookLacking = 64, 8
)

// learn counts the texts in what is about to be searched.
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

// has reports whether a line in which the leading text is has the others too, if that is worth looking.
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
