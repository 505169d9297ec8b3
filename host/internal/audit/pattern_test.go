package audit

import "testing"

// TestPatterns compiles all patterns, because the program compiles a pattern only on its first use.
func TestPatterns(t *testing.T) {
	for _, f := range forms() {
		if groups := f.re().NumSubexp(); f.name && groups < 2 {
			t.Errorf("%s has %d groups, but a name and a value need 2", f.re(), groups)
		}
	}
}
