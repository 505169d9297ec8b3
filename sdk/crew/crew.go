// Package crew runs functions in goroutines that are reused. [Crew.Go] replaces a go statement.
//
// A new goroutine has a small stack, which the runtime copies several times while a deep function runs. For a short
// call of a tool, this copying takes a twentieth of the processor time. A reused goroutine keeps its stack.
package crew

import "sync"

// most is the maximum number of idle goroutines in a crew.
const most = 32

// Crew is a set of goroutines. The zero value is an empty crew, which is ready to use. Several goroutines can use a
// crew at the same time.
type Crew struct {
	mu        sync.Mutex
	idle      []chan func() // the most recently used goroutine is last
	dismissed bool
}

// Go runs f in an idle goroutine, or in a new one. It does not wait for f.
func (c *Crew) Go(f func()) {
	c.mu.Lock()
	last := len(c.idle) - 1
	if last < 0 {
		c.mu.Unlock()
		go c.member(f)
		return
	}
	next := c.idle[last]
	c.idle = c.idle[:last]
	c.mu.Unlock()
	next <- f
}

// member is the body of a goroutine of the crew. It runs f and then the functions that Go passes to it. It ends if the
// crew already has enough idle goroutines.
func (c *Crew) member(f func()) {
	next := make(chan func(), 1)
	for f != nil {
		f()
		if !c.rest(next) {
			return
		}
		f = <-next
	}
}

// rest adds a goroutine to the idle ones. It returns false if the goroutine must end.
func (c *Crew) rest(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismissed || len(c.idle) >= most {
		return false
	}
	c.idle = append(c.idle, next)
	return true
}

// Dismiss ends the idle goroutines at once. Each busy goroutine ends after its function. Go can still be called, but
// then starts a new goroutine for each function.
func (c *Crew) Dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissed = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
}
