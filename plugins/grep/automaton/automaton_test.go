package automaton

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/syntax"
)

func machine(t testing.TB, pattern string) *Machine {
	t.Helper()
	tree, err := syntax.Rust(pattern, false)
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	p, err := Compile(tree)
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	return NewMachine(p)
}

// generate returns a random pattern that has the same meaning in this package and in package regexp.
func generate(r *rand.Rand, depth int) string {
	atoms := []string{"a", "b", "é", ".", "[ab]", "[^a]", "[^é]", "(?s:.)", "^", "$", `\A`, `\z`, `(?-u:\b)`, "c", "_", " ", "(?i:B)"}
	if depth == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	sub := func() string { return generate(r, depth-1) }
	switch r.IntN(7) {
	case 0:
		return "(?:" + sub() + "|" + sub() + ")"
	case 1:
		return "(?:" + sub() + ")" + []string{"*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{0,2}?"}[r.IntN(10)]
	case 2:
		return "(?:" + sub() + ")"
	case 3:
		return atoms[r.IntN(len(atoms))]
	}
	return sub() + sub()
}

// TestLikeRegexp compares matches with the matches of package regexp. It uses only ASCII words and valid UTF-8,
// because regexp supports nothing else.
func TestLikeRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		pattern := generate(r, 3)
		want := regexp.MustCompile("(?m)" + strings.ReplaceAll(pattern, `(?-u:\b)`, `\b`))
		m := machine(t, pattern)
		for range 8 {
			var text strings.Builder
			for range r.IntN(12) {
				text.WriteString([]string{"a", "b", "c", "é", "_", " ", "\n", "B"}[r.IntN(8)])
			}
			s := text.String()
			loc := want.FindStringIndex(s)
			start, end, ok, err := m.Find([]byte(s), 0, len(s))
			if err != nil {
				t.Fatal(err)
			}
			if ok != (loc != nil) || ok && (start != loc[0] || end != loc[1]) {
				t.Fatalf("%q in %q: found %v %d-%d, want %v", pattern, s, ok, start, end, loc)
			}
			first, exists, err := m.Exists([]byte(s), 0, len(s))
			if err != nil || exists != ok {
				t.Fatalf("%q in %q: exists %v, found %v, error %v", pattern, s, exists, ok, err)
			}
			if exists && first > end {
				t.Fatalf("%q in %q: a match ends at %d, the first to end at %d", pattern, s, end, first)
			}
		}
	}
}

func TestContext(t *testing.T) {
	// Conditions such as \b also depend on the text before and after the searched range.
	for _, tc := range []struct {
		pattern, text string
		from, to      int
		want          bool
	}{
		{`\bb`, "ab", 1, 2, false}, {`\bb`, " b", 1, 2, true}, {`a\b`, "ab", 0, 1, false}, {`a\b`, "a ", 0, 1, true},
		{`^b`, "\nb", 1, 2, true}, {`^b`, "ab", 1, 2, false}, {`a$`, "a\n", 0, 1, true}, {`a$`, "ab", 0, 1, false},
		{`a\z`, "ab", 0, 1, false}, {`\Ab`, "ab", 1, 2, false}, {`\bb`, "éb", 2, 3, false}, {`a\b`, "aé", 0, 1, false},
		{`a\b{end}b`, "ab", 0, 2, false}, {`a\b{end}`, "a b", 0, 1, true}, {`\b{start}b`, "ab", 1, 2, false}, {`\b{start}b`, " b", 1, 2, true}, {` \b{start}`, "a b", 1, 2, true}, {` \b{end}`, "a b", 1, 2, false},
		{`a\b{end-half}`, "a-", 0, 1, true}, {`a\b{end-half}`, "ab", 0, 1, false}, {`-\b{start-half}`, "-a", 0, 1, true}, {`a\b{start-half}`, "a-", 0, 1, false}, {`\B-`, "--", 1, 2, true}, {`\B-`, "\xff-", 1, 2, false},
		{`(?R)a$`, "a\r\n", 0, 1, true}, {`(?R)\r$`, "a\r\n", 0, 2, false},
	} {
		m := machine(t, tc.pattern)
		_, got, _ := m.Exists([]byte(tc.text), tc.from, tc.to)
		_, _, found, _ := m.Find([]byte(tc.text), tc.from, tc.to)
		if got != tc.want || found != tc.want {
			t.Errorf("%s in %q from %d to %d: exists %v, found %v, want %v", tc.pattern, tc.text, tc.from, tc.to, got, found, tc.want)
		}
	}
}

// TestPatience searches a text that has many false candidates at its beginning and none in the rest. The machine must
// soon stop looking for further candidates at the beginning, but it must still skip the rest.
func TestPatience(t *testing.T) {
	m := machine(t, `foo\d`)
	calls, skipped := 0, 0
	m.SkipTo(func(text []byte, _ int) (at, wrong int) {
		at = strings.Index(string(text[:min(len(text), 1<<16)]), "foo")
		if at < 0 {
			at = min(len(text), 1<<16) - 3 // a match can begin at this position
		}
		calls, skipped = calls+1, skipped+at
		return at, 0
	})
	const many = 20_000
	text := []byte(strings.Repeat("foo ", many) + strings.Repeat("bar ", many) + "foo1")
	end, ok, err := m.Exists(text, 0, len(text))
	if err != nil || !ok || end != len(text) {
		t.Fatalf("found %v at %d of %d, error %v", ok, end, len(text), err)
	}
	if calls > many/8 || skipped < 3*many {
		t.Errorf("it was looked for %d times, and %d bytes were skipped", calls, skipped)
	}
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := []byte(strings.Repeat("ab", 1_000_000))
	for _, pattern := range []string{`(?:a|b)*a(?:a|b){2000}c`, `(?-u:\B)\xffa{2000}`} {
		m := machine(t, pattern)
		m.Use(ctx)
		if _, _, err := m.Exists(text, 0, len(text)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Exists went on: %v", pattern, err)
		}
		if _, _, _, err := m.Find(text, 0, len(text)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Find went on: %v", pattern, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, pattern := range []string{"(?:a{1000}){2000}", "(?:(?:a{65535}){65535}){65535}", "(?-u:[\\x80-\\xff])\\w{4000}", "a{2000000000}"} {
		tree, err := syntax.Rust(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(tree); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestUTF8Sequences checks the byte sequences of character classes against the encoder of package utf8.
func TestUTF8Sequences(t *testing.T) {
	matches := func(seqs [][]syntax.Range, b string) bool {
		for _, seq := range seqs {
			ok := len(seq) == len(b)
			for i := 0; ok && i < len(b); i++ {
				ok = seq[i].Lo <= rune(b[i]) && rune(b[i]) <= seq[i].Hi
			}
			if ok {
				return true
			}
		}
		return false
	}
	for _, r := range []syntax.Range{{Lo: 0, Hi: 0x10FFFF}, {Lo: 'a', Hi: 0x3FF}, {Lo: 0x7F0, Hi: 0x10010}, {Lo: 0xD000, Hi: 0xE001}, {Lo: 0xFFFE, Hi: 0x10FFFE}, {Lo: 0x20AC, Hi: 0x20AC}} {
		seqs := utf8Sequences(syntax.Class{r})
		for x := rune(0); x <= 0x10FFFF; x += 1 + x/97 {
			if x >= 0xD800 && x <= 0xDFFF {
				continue
			}
			if got, want := matches(seqs, string(x)), r.Lo <= x && x <= r.Hi; got != want {
				t.Errorf("%x-%x has %x: %v", r.Lo, r.Hi, x, got)
			}
		}
		for _, bad := range []string{"\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80", "\xe2\x82"} {
			if matches(seqs, bad) {
				t.Errorf("%x-%x matches %q", r.Lo, r.Hi, bad)
			}
		}
	}
}

func BenchmarkExists(b *testing.B) {
	line := "\tfunc (d *dfa) exists(m *Machine, text []byte, from, to int) (int, bool, error) {\n"
	text := []byte(strings.Repeat(line, 10_000))
	for _, pattern := range []string{`zzz`, `\w+\(zz\)`, `(?i)zebra`, `\bz\w+z\b`, `[0-9]+\.[0-9]+`} {
		b.Run(pattern, func(b *testing.B) {
			m := machine(b, pattern)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, ok, _ := m.Exists(text, 0, len(text)); ok {
					b.Fatal("found")
				}
			}
		})
	}
}
