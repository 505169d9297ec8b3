//go:build !race

package pattern

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestOracleRequirementLosesNothing checks that searches with and without required texts find the same matches.
func TestOracleRequirementLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) // #nosec G404 -- a test
	atoms := []string{"(?i:aba)", "(?i:b_)", "[Ab][Bk]_", "(?:aba|b_a|_ab)", "(?:ab_|(?i:bab|a_b))", `\A`, `\z`, "(?i:a__b)", "aba", "a__b", "a", "b", "_", "ab", "_a", "é", "[ab]", "[^a]", "[é_]", ".", `\w`, `\b`, `\B`, "^", "$", `\s`, "(?-u:[\\x80-\\xff])", `(?-u:\xc3)`, "(?i:k)", `\n`, "[a\\n]"}
	var expr func(depth int) string
	expr = func(depth int) string {
		var out strings.Builder
		for range 1 + r.IntN(4) {
			one := atoms[r.IntN(len(atoms))]
			if depth > 0 && r.IntN(3) == 0 {
				one = "(?:" + expr(depth-1)
				for range r.IntN(2) {
					one += "|" + expr(depth-1)
				}
				one += ")"
			}
			out.WriteString(one + []string{"", "", "", "?", "*", "+", "{2}", "{2,}", "{1,3}"}[r.IntN(9)])
		}
		return out.String()
	}
	letters := []string{"A", "B", "a", "a", "b", "_", "_", "é", "k", "K", "\u212a", " ", "\n", "\xc3", "\xff"}
	compiled, known, found := 0, 0, 0
	for range 1500 {
		e := expr(2)
		p, err := Compile(e, Options{Multiline: r.IntN(2) == 0})
		if err != nil {
			continue
		}
		compiled++
		if len(p.required) > 0 {
			known++
		}
		plain := *p
		plain.required, plain.prefix, plain.exact, plain.either = nil, needle{}, false, nil
		m, reference := p.Matcher(t.Context()), plain.Matcher(t.Context())
		for range 8 {
			var b strings.Builder
			for range r.IntN(60) {
				b.WriteString(letters[r.IntN(len(letters))])
			}
			text := []byte(b.String())
			for way, find := range map[string]func(m *Matcher, pos int) (start, end int, ok bool, err error){
				"matches": func(m *Matcher, pos int) (int, int, bool, error) { return m.Find(text, pos) },
				"lines":   func(m *Matcher, pos int) (int, int, bool, error) { return m.NextLine(text, pos) },
			} {
				if way == "lines" && p.Crossing() || way == "matches" && p.apart {
					continue
				}
				for pos, ok := 0, true; ok && pos <= len(text); found++ {
					start, end, there, err := find(m, pos)
					wantStart, wantEnd, want, wantErr := find(reference, pos)
					if there != want || there && (start != wantStart || end != wantEnd) || err != nil || wantErr != nil {
						t.Fatalf("%s: %s of %q from %d: %d–%d %v %v, without knowledge %d–%d %v %v", e, way, text, pos, start, end, there, err, wantStart, wantEnd, want, wantErr)
					}
					ok, pos = there, max(end, start+1)
				}
			}
		}
	}
	if known < compiled/3 || found < 20*compiled {
		t.Errorf("%d patterns, of %d a text is known, %d answers: too few", compiled, known, found)
	}
}
