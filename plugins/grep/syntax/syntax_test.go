package syntax

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestRustErrors(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		column  int
		reason  string
	}{
		{"foo(", 4, "not closed"}, {"(a(b)", 1, "not closed"}, {"a)", 2, "has no group"}, {"*a", 1, "nothing to repeat"}, {"a|*", 3, "nothing to repeat"}, {"(?i)*", 5, "nothing to repeat"},
		{"interface{}", 10, "has no number"}, {"a{,2}", 2, "has no number"}, {"a{2", 2, "not closed"}, {"a{2,1}", 2, "larger than the maximum"}, {"{2}", 1, "nothing to repeat"}, {"a{9999999999}", 2, "too large"},
		{"[a", 1, "not closed"}, {"é[", 2, "not closed"}, {"[z-a]", 2, "reversed"}, {`[a-\d]`, 2, "a character on both sides"}, {`[\b]`, 2, "not allowed in a class"},
		{`(a)\1`, 4, "back-references"}, {"(?=a)", 1, "look-around"}, {"a(?<!b)", 2, "look-around"}, {`\q`, 1, "unknown escape"}, {`a\`, 2, "single backslash"}, {`\p{Foo}`, 1, "unknown property"}, {`\p{L`, 1, "not closed"}, {`\xZZ`, 3, "hexadecimal digit"}, {`\x{D800}`, 1, "not a valid character"},
		{"(?z)", 3, "unknown flag"}, {"(?ii)", 4, "twice"}, {"(?i-)", 4, "no flag follows"}, {"(?P<a>x)(?P<a>y)", 13, "already used"}, {"(?P<1>x)", 5, "not allowed in the name"}, {`\b{foo}`, 4, "unknown word boundary"},
		{`(?-u)\pL`, 6, "not available"}, {`(?-u)[é]`, 7, "only ASCII"}, {"a\nb(", 4, "not closed"}, {strings.Repeat("(", 300) + strings.Repeat(")", 300), 251, "nested too deeply"}, {"\xff", 1, "not UTF-8"},
	} {
		_, err := Rust(tc.pattern, false)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%.20q: error %v", tc.pattern, err)
			continue
		}
		if e.Column() != tc.column || !strings.Contains(e.Reason, tc.reason) {
			t.Errorf("%.20q: character %d, %s; want %d, %s", tc.pattern, e.Column(), e.Reason, tc.column, tc.reason)
		}
	}
}

func TestPosixErrors(t *testing.T) {
	for _, tc := range []struct {
		pattern  string
		extended bool
		column   int
		reason   string
	}{
		{`\(a`, false, 1, "not closed"}, {"(a", true, 1, "not closed"}, {`a\)`, false, 2, "has no group"}, {`a\{x\}`, false, 2, "do not contain a number"}, {"a{2,1}", true, 2, "larger than the maximum"}, {"a{}", true, 2, "do not contain a number"}, {`a\{40000\}`, false, 2, "too large"},
		{"[a", true, 1, "not closed"}, {"[[:foo:]]", true, 2, "unknown class"}, {"[:alpha:]", true, 1, "two brackets"}, {"[z-a]", false, 2, "reversed"}, {"[a-[:digit:]]", true, 2, "a character on both sides"}, {"[[.ab.]]", true, 2, "single character"}, {`(a)\1`, true, 4, "back-references"}, {`a\`, false, 2, "single backslash"},
	} {
		_, err := parsePosix(tc.pattern, false, tc.extended)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%q: error %v", tc.pattern, err)
			continue
		}
		if e.Column() != tc.column || !strings.Contains(e.Reason, tc.reason) {
			t.Errorf("%q: character %d, %s; want %d, %s", tc.pattern, e.Column(), e.Reason, tc.column, tc.reason)
		}
	}
}

func TestErrorShowsTheFault(t *testing.T) {
	_, err := Rust("one\ntwo [a-é\\q] x", false)
	want := "the pattern is not valid at character 13: unknown escape \\q; write q or \\\\q\n    two [a-é\\q] x\n            ^^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestClassOperations compares operations on ranges with operations on single symbols.
func TestClassOperations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func() (Class, map[rune]bool) {
		var c Class
		set := make(map[rune]bool)
		for range r.IntN(5) {
			lo := rune(r.IntN(30))
			hi := lo + rune(r.IntN(6))
			c = append(c, Range{lo, hi})
			for x := lo; x <= hi; x++ {
				set[x] = true
			}
		}
		return normalize(c), set
	}
	for range 2000 {
		a, inA := random()
		b, inB := random()
		for name, got := range map[string]Class{"union": a.union(b), "minus": a.minus(b), "intersect": a.intersect(b)} {
			for x := range rune(40) {
				want := map[string]bool{"union": inA[x] || inB[x], "minus": inA[x] && !inB[x], "intersect": inA[x] && inB[x]}[name]
				if got.Has(x) != want {
					t.Fatalf("%v %s %v = %v, which has %d: %v", a, name, b, got, x, got.Has(x))
				}
			}
			for i := 1; i < len(got); i++ {
				if got[i].Lo <= got[i-1].Hi+1 {
					t.Fatalf("%v %s %v = %v is not in order", a, name, b, got)
				}
			}
		}
	}
}

func TestFold(t *testing.T) {
	for _, tc := range []struct {
		in   rune
		all  string
		gnu  string
		byte string
	}{
		{'k', "Kk\u212a", "Kk", "Kk"}, {'s', "Ss\u017f", "Ss\u017f", "Ss"}, {'é', "Éé", "Éé", "é"}, {'1', "1", "1", "1"}, {'ß', "ß\u1e9e", "ß", "ß"},
	} {
		c := Class{{tc.in, tc.in}}
		for name, pair := range map[string][2]string{"fold": {list(c.fold()), tc.all}, "foldUpper": {list(c.foldUpper()), tc.gnu}, "foldASCII": {list(c.foldASCII()), tc.byte}} {
			if pair[0] != pair[1] {
				t.Errorf("%s of %c: %s, want %s", name, tc.in, pair[0], pair[1])
			}
		}
	}
}

func list(c Class) string {
	var s []rune
	for _, r := range c {
		for x := r.Lo; x <= r.Hi; x++ {
			s = append(s, x)
		}
	}
	return string(s)
}

func TestTextKeepsBytes(t *testing.T) {
	n := Text("a\xff", false)
	want := []Class{{{'a', 'a'}}, {{RawByte + 0xff, RawByte + 0xff}}}
	if len(n.Sub) != 2 || !slices.Equal(n.Sub[0].Class, want[0]) || !slices.Equal(n.Sub[1].Class, want[1]) {
		t.Errorf("got %v", n)
	}
}

func FuzzRust(f *testing.F) {
	f.Add(`(?i)[a-z&&[^b]]{2,3}\p{L}\b{start}`)
	f.Add(`(?x) a # c`)
	f.Fuzz(func(t *testing.T, pattern string) {
		for _, parse := range []func(string, bool) (*Node, error){Rust, Basic, Extended} {
			if _, err := parse(pattern, true); err != nil && err.Error() == "" {
				t.Error("an error without a message")
			}
		}
	})
}
