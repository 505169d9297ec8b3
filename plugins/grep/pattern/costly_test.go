//go:build !race

package pattern

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOracleHugePatterns checks that a huge pattern is quickly compiled or refused. Without the limits, compiling each
// refused pattern would take minutes.
func TestOracleHugePatterns(t *testing.T) {
	words := make([]string, 20_000)
	for i := range words {
		words[i] = fmt.Sprintf("word%d", i)
	}
	half := MaxLength / 2
	for _, tc := range []struct {
		name, expr string
		o          Options
		want       string // text in the error; empty if the pattern is accepted
	}{
		{"16 MiB", strings.Repeat("abcdefgh", 2<<20), Options{}, "has 16777216 bytes, and the limit is 262144"},
		{"16 MiB, fixed", strings.Repeat("abcdefgh", 2<<20), Options{Dialect: Fixed}, "search for a rare part of the pattern"},
		{"16 MiB of brackets", strings.Repeat("(", 16<<20), Options{Dialect: Extended}, "the limit is"},
		{"one text", strings.Repeat("abcdefgh", half/8), Options{IgnoreCase: true}, ""},
		{"one text and a class", `\d` + strings.Repeat("abcdefgh", half/8), Options{}, ""},
		{"alternatives", strings.Join(words, "|"), Options{}, ""},
		{"alternatives, fixed", strings.Join(words, "\n"), Options{Dialect: Fixed, IgnoreCase: true}, ""},
		{"properties", strings.Repeat(`\pL`, half/3), Options{}, "too many large character classes"},
		{"properties, folded", strings.Repeat(`\pL`, half/3), Options{IgnoreCase: true}, "too many large character classes"},
		{"letters", strings.Repeat(`\w`, half/2), Options{}, "too many large character classes"},
		{"sets", strings.Repeat(`[^a]`, half/4), Options{IgnoreCase: true}, ""},
		{"folded sets", strings.Repeat("[\u0100-\uffff]", half/8), Options{IgnoreCase: true}, "too many large character classes"},
		{"folded sets of POSIX", strings.Repeat("[\u0100-\uffff]", half/8), Options{Dialect: Extended, IgnoreCase: true}, "too many large character classes"},
		{"a property repeated", `\pL{500000}`, Options{}, ""},
		{"repetitions", strings.Repeat("(", 9) + "a" + strings.Repeat("{9}){9}", 9), Options{}, "too large"},
	} {
		if _, err := Compile(tc.expr, tc.o); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1000) {
			t.Errorf("%s: error %.300v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestOracleFalsePlaces searches text that resembles a match. The search must examine few false candidates and still
// find the match.
func TestOracleFalsePlaces(t *testing.T) {
	long := strings.Repeat("a", 250)
	for expr, c := range map[string]struct{ text, match string }{
		"abc|ebc|tbc|obc|ibc|nbc|sbc|rbc":     {strings.Repeat("bcbcbc\n", 20_000), "tbc"},
		long + "b|" + long + "c":              {strings.Repeat(strings.Repeat("a", 248)+"b\n", 2000), long + "c"},
		"(?i)" + long + "c":                   {strings.Repeat(strings.Repeat("a", 248)+"b\n", 2000), long + "C"},
		"(?i)" + long + "1.*" + long + "2":    {strings.Repeat(strings.Repeat("a", 248)+"b\n", 2000), long + "1" + long + "2"},
		"(?i)e[xy]" + strings.Repeat("bc", 9): {strings.Repeat("Éebcbcbcbc\n", 20_000), "EX" + strings.Repeat("bC", 9)},
	} {
		p := eitherFor(t, expr)
		text := []byte(c.text + c.match + "\n" + c.text)
		_, wrong := p.either.index(text, 100)
		for _, n := range append(slices.Clone(p.required), p.prefix) {
			if len(n.text) > 0 {
				_, w := n.index(text, 100)
				wrong += w
			}
		}
		if wrong > 2000 { // the search stops after about 100 false candidates in each text
			t.Errorf("%.40s…: %d places", expr, wrong)
		}
		start, end, ok, err := p.Matcher(t.Context()).NextLine(text, 0)
		if !ok || err != nil || start != len(c.text) || end != start+len(c.match)+1 {
			t.Errorf("%.40s…: %d–%d %v %v, want %d", expr, start, end, ok, err, len(c.text))
		}
		if start, _, ok, err = p.Matcher(t.Context()).Find(text, 0); !ok || err != nil || start != len(c.text) {
			t.Errorf("%.40s…: found at %d %v %v, want %d", expr, start, ok, err, len(c.text))
		}
	}
}
