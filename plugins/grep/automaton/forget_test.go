//go:build !race

package automaton

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestOracleForgetting checks a search that creates more states than the table can hold.
func TestOracleForgetting(t *testing.T) {
	m := machine(t, `(?:a|b)*a(?:a|b){18}c`)
	r := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, 200_000)
	for i := range text {
		text[i] = "ab"[r.IntN(2)]
	}
	if _, ok, err := m.Exists(text, 0, len(text)); ok || err != nil {
		t.Fatalf("found %v, error %v", ok, err)
	}
	text = append(text, 'a')
	text = append(text, strings.Repeat("b", 18)+"c"...)
	end, ok, err := m.Exists(text, 0, len(text))
	if err != nil || !ok || end != len(text) {
		t.Fatalf("found %v at %d of %d, error %v", ok, end, len(text), err)
	}
}

// TestOracleForgettingWhatIsSkipped is like TestOracleForgetting, but the machine skips text. The automaton returns
// to its initial state after each section of the text that cannot match.
func TestOracleForgettingWhatIsSkipped(t *testing.T) {
	m := machine(t, `abc(?:a|b)*a(?:a|b){18}c`)
	skipped := 0
	m.SkipTo(func(text []byte, _ int) (at, wrong int) {
		at = bytes.Index(text, []byte("abc"))
		skipped += max(0, at)
		return at, 0
	})
	r := rand.New(rand.NewPCG(3, 4))
	var text []byte
	for range 200 {
		text = append(text, "--------abc"...)
		for range 1000 {
			text = append(text, "ab"[r.IntN(2)])
		}
	}
	if _, ok, err := m.Exists(text, 0, len(text)); ok || err != nil {
		t.Fatalf("found %v, error %v", ok, err)
	}
	text = append(text, "-abca"+strings.Repeat("b", 18)+"c"...)
	end, ok, err := m.Exists(text, 0, len(text))
	if err != nil || !ok || end != len(text) {
		t.Fatalf("found %v at %d of %d, error %v", ok, end, len(text), err)
	}
	if skipped < 2*200*7 {
		t.Errorf("%d bytes were skipped", skipped)
	}
}
