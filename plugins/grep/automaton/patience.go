package automaton

// Patience limits the effort spent on finding places by other means than the automaton. So a text with many wrong places
// is not searched more slowly than by the automaton alone. Use [NewPatience] to create one.
type Patience struct{ left int }

const (
	// dear is the cost of a wrong place, in bytes that the automaton reads in the same time.
	dear = 16
	// mostPatience is the initial and maximal patience, in the same unit.
	mostPatience = 4 << 10
)

// NewPatience returns the maximal patience.
func NewPatience() Patience { return Patience{mostPatience} }

// Places returns how many wrong places may be examined.
func (p *Patience) Places() int { return max(0, p.left) / dear }

// Lose subtracts the cost of wrong places.
func (p *Patience) Lose(places int) { p.left -= places * dear }

// Gain adds the number of bytes that were searched.
func (p *Patience) Gain(n int) { p.left = min(p.left+n, mostPatience) }
