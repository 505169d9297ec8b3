package index

import (
	"context"
	"slices"
	"time"
)

// wait waits until the set is not building any index.
func (s *Set) wait(ctx context.Context) {
	s.mu.Lock()
	trees := slices.Clone(s.trees)
	s.mu.Unlock()
	for _, t := range trees {
		for state, _ := t.State(); state == Building && ctx.Err() == nil; state, _ = t.State() {
			time.Sleep(time.Millisecond)
		}
	}
}
