package automaton

// Patience bounds what is spent on looking for places by other means than the automaton, so that a text which
// is full of wrong ones is not searched more slowly than by the automaton alone. Get one from [NewPatience].
type Patience struct{ left int }

const (
	// dear is what a place costs that was looked at without success, in bytes that the automaton reads in that time.
	dear = 16
	// mostPatience is in such bytes, too.
	mostPatience = 4 << 10
)

// NewPatience returns all there can be.
func NewPatience() Patience { return Patience{mostPatience} }

// Places is how many may be looked at without success.
func (p *Patience) Places() int { return max(0, p.left) / dear }

// Lose takes places into account that were looked at without success.
func (p *Patience) Lose(places int) { p.left -= places * dear }

// Gain takes bytes into account that are done with.
func (p *Patience) Gain(n int) { p.left = min(p.left+n, mostPatience) }
