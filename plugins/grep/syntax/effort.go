package syntax

// effort limits how much work a parser does for character classes. Without the limit, a short pattern could contain
// thousands of classes, each with a hundred thousand symbols.
type effort struct{ spent int }

// maxEffort limits the work to about half a second.
const maxEffort = 1 << 23

const tooManyClasses = "the pattern has too many large character classes up to here; remove some classes, or use smaller ones"

// affords adds the cost of a class to the effort. It reports whether the total is within the limit.
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
