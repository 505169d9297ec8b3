package pattern

// either is a set of texts. Each match contains at least one of them. ASCII letters match regardless of case.
type either []needle

const (
	// mostEither limits the number of texts. The automaton searches for more of them faster than one search per text.
	mostEither = 8
	// minWindow and maxWindow limit, in bytes, how far the search for one text goes before the next text is searched
	// for. The window grows with the distance from the beginning. So a frequent text is found without searching
	// everything for a rare one.
	minWindow, maxWindow = 256, 64 << 10
)

// eitherOf chooses the best set of the literals of a pattern. It returns nil if no set is useful.
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

// index returns the first position of one of the texts in buf, or -1, and the number of wrong places. After that many
// places, it returns a position that no text precedes.
func (e either) index(buf []byte, places int) (at, wrong int) {
	window := minWindow
	for from := 0; from < len(buf); from, window = from+window, min(2*window, maxWindow) {
		found, to := -1, min(from+window, len(buf)) // to bounds the search for the other texts
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
