package testprogram

// Gate is a point at which calls and programs wait until the test opens it.
type Gate struct {
	// Reached receives a value for each arrival.
	Reached chan struct{}
	open    chan struct{}
}

// maxArrivals is the maximum number of arrivals at a gate that the test has not received.
const maxArrivals = 1000

// Gate returns the gate with a name. The first call makes a closed gate.
func (p *Programs) Gate(name string) *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gates[name]
	if g == nil {
		g = &Gate{Reached: make(chan struct{}, maxArrivals), open: make(chan struct{})}
		p.gates[name] = g
	}
	return g
}

// Open opens the gate. An open gate stays open.
func (g *Gate) Open() {
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// Open opens all gates.
func (p *Programs) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.gates {
		g.Open()
	}
}

// pass waits until the gate is open. It returns false if a channel is closed first.
func (g *Gate) pass(canceled, ended <-chan struct{}) bool {
	g.Reached <- struct{}{}
	select {
	case <-g.open:
		return true
	case <-canceled:
	case <-ended:
	}
	return false
}
