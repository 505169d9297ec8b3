package syntax

// effort bounds what a parser does for the classes of a pattern: a few characters can name
// one with a hundred thousand, and a pattern can name it thousands of times.
type effort struct{ spent int }

// maxEffort is about half a second.
const maxEffort = 1 << 23

const tooManyClasses = "it has too many large classes of characters up to here; leave some out, or write smaller ones"

// affords counts what a class costs, and reports whether that is within bounds.
func (e *effort) affords(c Class, fold bool) bool {
	const perRange = 4
	e.spent += perRange * len(c)
	for _, r := range c {
		if fold {
			e.spent += max(0, int(min(r.Hi, lastFolding)-r.Lo)+1)
		}
	}
	return e.spent <= maxEffort
}
