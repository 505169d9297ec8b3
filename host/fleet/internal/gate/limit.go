package gate

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Limit limits what each node has open at this node, so that one node cannot use up the memory or the descriptors. It
// is safe for concurrent use.
type Limit struct {
	what string
	max  int
	log  *slog.Logger

	mu   sync.Mutex
	open map[string]*count
}

// count is what one node has open.
type count struct {
	n    int
	told time.Time // when the log last got a warning
}

// warnEvery is the minimum time between two warnings about the same node.
const warnEvery = time.Minute

// newLimit returns a limit. The text what names the limited things in messages.
func newLimit(what string, limit int, log *slog.Logger) *Limit {
	return &Limit{what: what, max: limit, log: log, open: make(map[string]*count)}
}

// Enter counts one more for a node. The caller must call leave once when it is closed. If the node has the maximum
// open, Enter returns an error, and the log gets a warning.
func (l *Limit) Enter(node string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[node]
	if c == nil {
		c = new(count)
		l.open[node] = c
	}
	if c.n >= l.max {
		if now := time.Now(); now.Sub(c.told) >= warnEvery {
			c.told = now
			l.log.Warn("a node opens too many "+l.what+", and more of them are refused. If its machine can be in other hands: toolhost fleet revoke "+node, "node", node, "maximum", l.max)
		}
		return nil, fmt.Errorf("the node %s has the maximum of %d %s open", node, l.max, l.what)
	}
	c.n++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.n--
	}, nil
}
