package automaton

// Patience limits how many false candidates a search may examine before it uses only the automaton. The limit ensures
// that text with many false candidates is searched as fast as by the automaton alone. Use [NewPatience] to create a
// Patience.
type Patience struct{ left int }

const (
	// dear is the cost of a false candidate: the number of bytes that the automaton reads in the same time.
	dear = 16
	// mostPatience is the initial and maximal patience in bytes that the automaton reads.
	mostPatience = 4 << 10
)

// NewPatience returns a Patience with the maximal value.
func NewPatience() Patience { return Patience{mostPatience} }

// Places returns how many false candidates may still be examined.
func (p *Patience) Places() int { return max(0, p.left) / dear }

// Lose subtracts the cost of a number of false candidates.
func (p *Patience) Lose(places int) { p.left -= places * dear }

// Gain adds the number of searched bytes, up to the maximum.
func (p *Patience) Gain(n int) { p.left = min(p.left+n, mostPatience) }
