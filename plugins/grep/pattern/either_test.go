package pattern

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/plugins/grep/bytepair"
)

// eitherFor compiles a pattern and sets its field "either" on all processors. Compile sets this field only on
// processors on which it makes the search faster.
func eitherFor(t *testing.T, expr string) *Pattern {
	t.Helper()
	p, err := Compile(expr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytepair.Fast && p.requiresLittle() {
		p.either = eitherOf(p.literals)
	}
	return p
}

// TestEither checks which texts the field "either" of a pattern contains.
func TestEither(t *testing.T) {
	many := "one1|two2|tri3|for4|fiv5|six6|sev7|eig8"
	for expr, want := range map[string]string{
		"alpha|Beta":               `"alpha" folded, "beta" folded`,
		"(get|set)(User)?":         `"get" folded, "getuser" folded, "set" folded, "setuser" folded`,
		`\b(alpha|beta)\(`:         `"alpha(" folded, "beta(" folded`,
		"(alpha|beta).*long":       "", // every match contains "long", so the set is not needed
		"alpha|be":                 "",
		"alpha|x*":                 "",
		"(?i)task|disk":            "", // the Kelvin sign also matches the letter k
		many:                       `"one1" folded, "two2" folded, "tri3" folded, "for4" folded, "fiv5" folded, "six6" folded, "sev7" folded, "eig8" folded`,
		many + "|nin9":             "",
		".(one|two).(three|fiver)": `"fiver" folded, "three" folded`,
	} {
		if got := described(eitherFor(t, expr).either); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// TestEitherIndex checks that each text of the set is found at every position, even if other texts of the set
// follow.
func TestEitherIndex(t *testing.T) {
	e := eitherFor(t, "abcdefghijklm|XYZ|uvw1").either
	if i, _ := e.index(nil, math.MaxInt); i != -1 {
		t.Errorf("%d in nothing", i)
	}
	for _, size := range []int{1, 2, 3, 40, 256, 300, 900, 3000} {
		for at := -1; at < size; at++ {
			for k, text := range []string{"ABCdefghijklm", "xyz", "UVW1"} {
				buf := bytes.Repeat([]byte("_"), size)
				want := -1
				if at >= 0 && at+len(text) <= size {
					copy(buf[at:], text)
					want = at
					for i, other := range []string{"xyz", "UVW1", "ABCdefghijklm"} {
						copy(buf[min(size, at+len(text)+(i+k)%3*7):], other)
					}
				}
				if got, _ := e.index(buf, math.MaxInt); got != want {
					t.Fatalf("%q at %d of %d: %d", text, at, size, got)
				}
			}
		}
	}
}

// TestEitherPatience searches lines that contain a text of the set. If most of these lines have no match, the
// automaton must replace the search for texts. Otherwise the search for texts must continue.
func TestEitherPatience(t *testing.T) {
	for line, lost := range map[string]bool{"xalpha\n": true, strings.Repeat(" ", 300) + "xalpha\n": false} {
		m := eitherFor(t, `\b(alpha|beta)`).Matcher(t.Context())
		most := m.patience.Places()
		text := []byte(strings.Repeat(line, 30) + "beta\n")
		if start, end, ok, err := m.NextLine(text, 0); err != nil || !ok || end != len(text) || start != len(text)-len("beta\n") {
			t.Errorf("%d–%d %v %v", start, end, ok, err)
		}
		if left := m.patience.Places(); lost && left > 5 || !lost && left < most-20 {
			t.Errorf("%d of %d places are left after %q", left, most, line)
		}
		for _, expr := range []string{`\b(alpha|beta)`, `\A(alpha|beta)`} { // the patience grows with the bytes that the automaton reads
			m := eitherFor(t, expr).Matcher(t.Context())
			m.patience.Lose(most)
			if _, _, ok, err := m.NextLine(bytes.Repeat([]byte(line), 1000), 0); ok || err != nil {
				t.Errorf("%s: %v %v", expr, ok, err)
			}
			if left := m.patience.Places(); left == 0 && !lost {
				t.Errorf("%s: %d places are left after much of %q", expr, left, line)
			}
		}
	}
}

// TestLinesWithoutTheOthers checks a text in which no line contains all required texts. The search must notice the
// end of the context.
func TestLinesWithoutTheOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, ok, err := eitherFor(t, "abc.*xyz").Matcher(ctx).NextLine(append(bytes.Repeat([]byte("xyz\n"), learnFrom), bytes.Repeat([]byte("abc\n"), 2<<20)...), 0)
	if ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", ok, err)
	}
}

// TestEitherLines checks that the search for a set of texts finds the same lines as the automaton alone.
func TestEitherLines(t *testing.T) {
	p := eitherFor(t, `(alpha|beta|gamma)\d?$`)
	plain := *p
	plain.either = nil
	for _, gap := range []int{0, 1, 7, 50, 400, 9000} {
		var text strings.Builder
		for i := range 300 {
			fmt.Fprintf(&text, "%s%s%s\n", strings.Repeat("-", gap*(i%3)), []string{"alpha", "beta1", "BETA", "gamma22", "gam", "xalpha", ""}[i%7], []string{"", "", " "}[i%3])
		}
		lines := func(p *Pattern) (out []int) {
			m, buf := p.Matcher(t.Context()), []byte(text.String())
			for pos := 0; ; {
				start, end, ok, err := m.NextLine(buf, pos)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return out
				}
				out, pos = append(out, start), end
			}
		}
		if got, want := fmt.Sprint(lines(p)), fmt.Sprint(lines(&plain)); got != want || len(want) < 50 {
			t.Errorf("with gaps of %d: %s, want %s", gap, got, want)
		}
	}
}

// TestSeek checks that no match begins before the returned position if the limit of false candidates is reached. It
// also checks that a candidate costs more if a long prefix of it equals the text.
func TestSeek(t *testing.T) {
	n := newNeedle(requirement{text: []byte("abc"), folded: true})
	for before := range 12 {
		text := []byte(strings.Repeat("ébc", before) + "ABC")
		first := len(text) - 3
		for places := range 14 {
			at, wrong, there := n.seek(text, places)
			if at < 0 || at > first || there != (at == first && places >= before) || wrong > places+1 {
				t.Errorf("%d before, %d places: %d (%v) after %d", before, places, at, there, wrong)
			}
			at, _ = n.index(text, places)
			if at < 0 || at > first || !utf8.RuneStart(text[at]) {
				t.Errorf("%d before, %d places: the text may be at %d", before, places, at)
			}
		}
	}
	long := newNeedle(requirement{text: []byte(strings.Repeat("a", 100) + "bc"), folded: true})
	if at, wrong, _ := long.seek([]byte(strings.Repeat("a", 98)+"xxbc"), 100); at != -1 || wrong != 1+98/bytesPerPlace {
		t.Errorf("%d after %d", at, wrong)
	}
}
