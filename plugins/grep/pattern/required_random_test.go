//go:build !race

package pattern

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRequirementLosesNothing compares what is found with and without what is known of the pattern.
func TestRequirementLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) // #nosec G404 -- a test
	atoms := []string{"(?i:aba)", "(?i:b_)", "[Ab][Bk]_", "(?i:a__b)", "aba", "a__b", "a", "b", "_", "ab", "_a", "é", "[ab]", "[^a]", "[é_]", ".", `\w`, `\b`, `\B`, "^", "$", `\s`, "(?-u:[\\x80-\\xff])", `(?-u:\xc3)`, "(?i:k)", `\n`, "[a\\n]"}
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
		if err != nil || p.apart {
			continue
		}
		compiled++
		if len(p.required.text) > 0 {
			known++
		}
		plain := *p
		plain.required, plain.prefix, plain.exact = needle{}, needle{}, false
		m, reference := p.Matcher(t.Context()), plain.Matcher(t.Context())
		for range 8 {
			var b strings.Builder
			for range r.IntN(60) {
				b.WriteString(letters[r.IntN(len(letters))])
			}
			text := []byte(b.String())
			for pos := 0; pos <= len(text); {
				s1, e1, ok1, err1 := m.Find(text, pos)
				s2, e2, ok2, err2 := reference.Find(text, pos)
				if ok1 != ok2 || ok1 && (s1 != s2 || e1 != e2) || err1 != nil || err2 != nil {
					t.Fatalf("%s in %q from %d: %d–%d %v %v, without knowledge %d–%d %v %v", e, text, pos, s1, e1, ok1, err1, s2, e2, ok2, err2)
				}
				if !ok1 {
					break
				}
				found++
				pos = max(e1, s1+1)
			}
			if p.Crossing() {
				continue
			}
			for pos := 0; pos < len(text); {
				s1, e1, ok1, err1 := m.NextLine(text, pos)
				s2, e2, ok2, err2 := reference.NextLine(text, pos)
				if ok1 != ok2 || ok1 && (s1 != s2 || e1 != e2) || err1 != nil || err2 != nil {
					t.Fatalf("%s in the lines of %q from %d: %d–%d %v %v, without knowledge %d–%d %v %v", e, text, pos, s1, e1, ok1, err1, s2, e2, ok2, err2)
				}
				if !ok1 {
					break
				}
				pos = e1
			}
		}
	}
	if known < compiled/3 || found < compiled {
		t.Errorf("%d patterns, of %d a text is known, %d matches: too few", compiled, known, found)
	}
}
