package automaton

// Patience limits how many false candidates a search examines before it uses only the automaton. Without the limit,
// text with many false candidates would be searched more slowly than by the automaton alone. Use [NewPatience] to
// create a Patience.
type Patience struct{ left int }

const (
	// dear is the cost of a false candidate in bytes: the automaton reads that many bytes in the time of one
	// candidate.
	dear = 16
	// mostPatience is the initial and maximum value of a Patience, in bytes that the automaton reads.
	mostPatience = 4 << 10
)

// NewPatience returns a Patience with the maximum value.
func NewPatience() Patience { return Patience{mostPatience} }

// Places returns the number of false candidates that the search is still allowed to examine.
func (p *Patience) Places() int { return max(0, p.left) / dear }

// Lose subtracts the cost of the given number of false candidates.
func (p *Patience) Lose(places int) { p.left -= places * dear }

// Gain increases the patience by the number of searched bytes, up to the maximum.
func (p *Patience) Gain(n int) { p.left = min(p.left+n, mostPatience) }
