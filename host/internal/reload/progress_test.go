package reload

import (
	"context"
	"testing"
)

// TestNoChangeIsLost checks that a change is not lost, regardless of the current step of the running reload.
func TestNoChangeIsLost(t *testing.T) {
	for _, c := range []struct {
		name    string
		partial bool
		// again is true if the change restarts the attempt. The new attempt then reads the change.
		again bool
		begun int
	}{
		{"an attempt is restarted", false, true, 0},
		{"an attempt already publishes", false, false, 1},
		{"an attempt reads no files", true, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p progress
			ctx, cancel := context.WithCancelCause(context.Background())
			p.begin(cancel, "first", c.partial)
			begun := 0
			p.changed("second", func() { begun++ })
			if canceled := ctx.Err() != nil; canceled == c.partial {
				t.Errorf("the attempt was restarted: %v", canceled)
			}
			p.end()
			if c.again {
				p.begin(cancel, "second", false)
				p.end()
			}
			p.finish()
			if begun != c.begun {
				t.Errorf("%d reloads were begun, want %d", begun, c.begun)
			}
		})
	}
}
