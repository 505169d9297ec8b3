package audit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestNeedles checks that the common search for all texts finds the same texts as separate searches.
func TestNeedles(t *testing.T) {
	for _, set := range []*needles{secretHints(), commandHints(), scriptKeys()} {
		var texts []string
		for _, some := range set.texts {
			texts = append(texts, some...)
		}
		slices.Sort(texts)
		all := strings.Join(texts, "")
		found := 0
		for range 20_000 {
			var b strings.Builder
			for range rand.IntN(4) {
				from := rand.IntN(len(all))
				b.WriteString(all[from:min(len(all), from+rand.IntN(12))])
			}
			s := b.String()
			want := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s, text) })
			if set.occurIn(s) != want {
				t.Fatalf("%q: found %t, want %t", s, !want, want)
			}
			if want {
				found++
			}
		}
		if found < 1000 || found > 19_000 {
			t.Errorf("%d of 20000 texts contain one: the test compares too little", found)
		}
	}
}
