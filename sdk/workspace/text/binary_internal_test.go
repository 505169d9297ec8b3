package text

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCountControl checks that countControl returns the same result as a count that examines single bytes.
func TestCountControl(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		data := make([]byte, rnd.IntN(40))
		want := 0
		for i := range data {
			data[i] = byte(rnd.IntN(256))
			if rnd.IntN(2) == 0 {
				data[i] %= 0x24
			}
			if data[i] < 0x20 && !slices.Contains([]byte("\b\t\n\f\r\x1b"), data[i]) {
				want++
			}
		}
		if got := countControl(data); got != want {
			t.Fatalf("%q: got %d, want %d", data, got, want)
		}
	}
}
