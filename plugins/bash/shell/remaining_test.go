package shell

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRemaining checks that a process that ends soon after the shell does not count as left running.
func TestRemaining(t *testing.T) {
	for life, want := range map[time.Duration][]int{settleTime / 2: nil, time.Hour: {7}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			pids := remaining(func() []int {
				if time.Since(began) < life {
					return []int{7}
				}
				return nil
			})
			if !slices.Equal(pids, want) {
				t.Errorf("a process that lives for %v: %v, want %v", life, pids, want)
			}
		})
	}
}
