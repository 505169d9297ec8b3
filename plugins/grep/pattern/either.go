package pattern

// either is a set of texts. Every match contains at least one text of the set. The case of ASCII letters is ignored.
type either []needle

const (
	// mostEither is the maximum number of texts in a set. For larger sets, the automaton is faster than one search
	// per text.
	mostEither = 8
	// minWindow and maxWindow limit how many bytes are searched for one text of the set before the other texts are
	// searched. The window grows with the distance from the beginning. Therefore a frequent text is found before the
	// whole buffer is searched for a rare text.
	minWindow, maxWindow = 256, 64 << 10
)

// eitherOf returns the set of literals that excludes the most text. A pattern can have several sets. If no set is
// useful, it returns nil.
func eitherOf(l Literals) (e either) {
	if l.Special {
		return nil
	}
	var best []string
	for _, set := range l.Sets {
		if len(set) <= mostEither && shortestOf(set) > shortestOf(best) {
			best = set
		}
	}
	for _, text := range best {
		e = append(e, newNeedle(requirement{text: []byte(text), folded: true}))
	}
	return e
}

// index returns the first position in buf at which a text of the set begins, or -1. It also returns the number of false
// candidates. If this number exceeds the argument "places", the returned position is only a lower bound: no text begins
// before it.
func (e either) index(buf []byte, places int) (at, wrong int) {
	window := minWindow
	for from := 0; from < len(buf); from, window = from+window, min(2*window, maxWindow) {
		found, to := -1, min(from+window, len(buf)) // the search for the other texts ends at the offset "to"
		for k := range e {
			end := min(to+len(e[k].text)-1, len(buf))
			i, missed, _ := e[k].seek(buf[from:end], places-wrong)
			wrong += missed
			if i >= 0 {
				found, to = from+i, from+i
			}
		}
		if found >= 0 {
			return found, wrong
		}
	}
	return -1, wrong
}
