package pattern

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/bytepair"
)

func eitherFor(t *testing.T, expr string) *Pattern {
	t.Helper()
	if !bytepair.Fast {
		t.Skip("the automaton is as fast here")
	}
	p, err := Compile(expr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEither: which of several texts are looked for one by one.
func TestEither(t *testing.T) {
	many := "one1|two2|tri3|for4|fiv5|six6|sev7|eig8"
	for expr, want := range map[string]string{
		"alpha|Beta":               `"alpha" folded, "beta" folded`,
		"(get|set)(User)?":         `"get" folded, "getuser" folded, "set" folded, "setuser" folded`,
		`\b(alpha|beta)\(`:         `"alpha(" folded, "beta(" folded`,
		"(alpha|beta).*long":       "", // one text is in every match
		"alpha|be":                 "",
		"alpha|x*":                 "",
		"(?i)task|disk":            "", // a Kelvin sign is a k
		many:                       `"one1" folded, "two2" folded, "tri3" folded, "for4" folded, "fiv5" folded, "six6" folded, "sev7" folded, "eig8" folded`,
		many + "|nin9":             "",
		".(one|two).(three|fiver)": `"fiver" folded, "three" folded`,
	} {
		if got := described(eitherFor(t, expr).either); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// TestEitherIndex has each of the texts at each place, and the others behind it.
func TestEitherIndex(t *testing.T) {
	e := eitherFor(t, "abcdefghijklm|XYZ|uvw1").either
	if i := e.index(nil); i != -1 {
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
				if got := e.index(buf); got != want {
					t.Fatalf("%q at %d of %d: %d", text, at, size, got)
				}
			}
		}
	}
}

// TestEitherPatience: a text full of lines with one of the texts and no match is left to the automaton, and one
// that is not is not.
func TestEitherPatience(t *testing.T) {
	for line, lost := range map[string]bool{"xalpha\n": true, strings.Repeat(" ", 300) + "xalpha\n": false} {
		m := eitherFor(t, `\b(alpha|beta)`).Matcher(t.Context())
		text := []byte(strings.Repeat(line, 5000))
		if start, end, ok, err := m.NextLine(text, 0); ok || err != nil {
			t.Errorf("%d–%d %v %v", start, end, ok, err)
		}
		if left := m.patience.Places(); left == 0 != lost {
			t.Errorf("%d places are left after %q", left, line)
		}
		text = append(text, "beta\n"...)
		if start, end, ok, err := m.NextLine(text, 0); err != nil || !ok || end != len(text) || start != len(text)-len("beta\n") {
			t.Errorf("%d–%d %v %v", start, end, ok, err)
		}
		if m.patience.Places() == 0 {
			t.Errorf("%q: what the automaton read gave no patience back", line)
		}
	}
}

// TestEitherLines: in a text of any kind the same lines are found as by the automaton alone.
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
