package pattern

// either is texts of which each match has one. Letters may be small or capital ones.
type either []needle

const (
	// mostEither bounds how many texts are looked for one after the other: of more, the automaton reads
	// all at once in less time.
	mostEither = 8
	// minWindow and maxWindow bound how far one is looked for before the next, in bytes. It grows with
	// the distance: whoever looks for one that is everywhere does not wait for one that is nowhere.
	minWindow, maxWindow = 256, 64 << 10
)

// eitherOf chooses from what is known of the matches of a pattern. There is none if that says too little.
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

// index returns the first place in buf where one of the texts is, or -1, and how many places were looked at in
// vain. After so many it returns a place before which there is none.
func (e either) index(buf []byte, places int) (at, wrong int) {
	window := minWindow
	for from := 0; from < len(buf); from, window = from+window, min(2*window, maxWindow) {
		found, to := -1, min(from+window, len(buf)) // to is where a place is too far
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
