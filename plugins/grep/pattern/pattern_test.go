package pattern

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/syntax"
)

var t0 = context.Background()

// matching returns the matching lines of a text, each with the column of its first match.
func matching(t *testing.T, expr string, o Options, text string) []string {
	t.Helper()
	p, err := Compile(expr, o)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	m := p.Matcher(t.Context())
	var out []string
	for pos := 0; pos < len(text); {
		start, end, ok, err := m.NextLine([]byte(text), pos)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		column, err := m.InLine([]byte(text), start, end)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSuffix(text[start:end], "\n")+":"+string(rune('0'+column)))
		pos = end
	}
	return out
}

func TestNextLine(t *testing.T) {
	const text = "one two\ntwo one\n\nONE\nfunc(a|b)\nlast"
	for _, tc := range []struct {
		expr string
		o    Options
		want string // the expected lines, separated by /
	}{
		{"one", Options{}, "one two:0/two one:4"}, {"one", Options{IgnoreCase: true}, "one two:0/two one:4/ONE:0"}, {"^one", Options{}, "one two:0"}, {"one$", Options{}, "two one:4"},
		{"^$", Options{}, ":0"}, {"t$", Options{}, "last:3"}, {`\Aone`, Options{}, "one two:0"}, {`\At`, Options{}, "two one:0"}, {`st\z`, Options{}, "last:2"}, {`two\z`, Options{}, "one two:4"}, {`\bt\w+\b`, Options{}, "one two:4/two one:0"},
		{"nothing", Options{}, ""}, {"z*x", Options{}, ""}, {"o.*o", Options{}, "one two:0/two one:2"}, {"last|ONE", Options{}, "ONE:0/last:0"},
		{"func(", Options{Dialect: Basic}, "func(a|b):0"}, {`a\|ONE`, Options{Dialect: Basic}, "ONE:0/func(a|b):5/last:1"}, {"a|ONE", Options{Dialect: Extended}, "ONE:0/func(a|b):5/last:1"},
		{"(a|b)", Options{Dialect: Fixed}, "func(a|b):4"}, {"ONE\nlast", Options{Dialect: Fixed}, "ONE:0/last:0"}, {"two\none", Options{Dialect: Extended}, "one two:0/two one:0"},
	} {
		got := strings.Join(matching(t, tc.expr, tc.o, text), "/")
		if got != tc.want {
			t.Errorf("%q %+v: got %s, want %s", tc.expr, tc.o, got, tc.want)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for _, tc := range []struct {
		expr string
		o    Options
		want string
	}{
		{`a\nb`, Options{}, "at character 2: the pattern has a line break"}, {"[\n]", Options{}, "at character 2: the pattern has a line break"}, {`a\x00`, Options{}, "at character 2: the pattern has a NUL byte"},
		{"a(", Options{}, "not closed"}, {"(?:a{1000}){2000}", Options{}, "too large"}, {"a", Options{Dialect: "pcre"}, "rust, bre, ere or fixed"},
	} {
		_, err := Compile(tc.expr, tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want %q", tc.expr, err, tc.want)
		}
	}
	if _, err := Compile(`a\nb`, Options{Multiline: true}); err != nil {
		t.Error(err)
	}
}

func TestCrossing(t *testing.T) {
	for expr, want := range map[string]bool{"a": false, `a\nb`: true, `\s`: true, "^a": true, `a\b`: false, "[^x]": true, ".": false, "(?s).": true} {
		p, err := Compile(expr, Options{Multiline: true})
		if err != nil {
			t.Fatal(err)
		}
		if p.Crossing() != want {
			t.Errorf("%s crosses lines: %v", expr, p.Crossing())
		}
		if p, err = Compile("a", Options{}); err != nil || p.Crossing() {
			t.Errorf("crosses lines without multiline, error %v", err)
		}
	}
}

func TestRequired(t *testing.T) {
	for expr, want := range map[string]string{
		"abc": "abc!", "a+bcd": "bcd", "(abc)d": "abcd!", "(abc)+d": "abc", "a|b": "", "abc|b": "", "x?yz": "yz", `\bfoo\b`: "foo", "foo.*barbaz": "barbaz", "[ab]": "", "": "", "(a{0})bc": "bc", `(?-u:\xff)a`: "\xffa!", "é": "é!", "^ab": "ab",
	} {
		p, err := Compile(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(p.required) > 0 {
			got = string(p.required[0].text)
		}
		if p.exact {
			got += "!"
		}
		if got != want {
			t.Errorf("%s requires %q, want %q", expr, got, want)
		}
	}
}

func TestFindAcrossLines(t *testing.T) {
	p, err := Compile(`a\n+b`, Options{Multiline: true})
	if err != nil {
		t.Fatal(err)
	}
	m := p.Matcher(t.Context())
	start, end, ok, err := m.Find([]byte("xa\n\nb a\nb"), 2)
	if err != nil || !ok || start != 6 || end != 9 {
		t.Errorf("found %v at %d-%d, error %v", ok, start, end, err)
	}
}

func TestMatcherStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := Compile(`(?:a|b)*a(?:a|b){2000}c`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("ab", 500_000) + "c\n")
	if _, _, _, err := p.Matcher(ctx).NextLine(text, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("went on: %v", err)
	}
}

func TestErrorIsOfSyntax(t *testing.T) {
	_, err := Compile("é(", Options{})
	e, ok := errors.AsType[*syntax.Error](err)
	if !ok || e.Column() != 2 {
		t.Errorf("got %v", err)
	}
}

// TestMatchersAreApart checks that several goroutines can use one pattern at the same time.
func TestMatchersAreApart(t *testing.T) {
	p, err := Compile(`\w+@\w+`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []int)
	for range 4 {
		go func() {
			m := p.Matcher(t0)
			var lines []int
			text := []byte(strings.Repeat("nothing\na@b\n", 100))
			for pos := 0; pos < len(text); {
				start, end, ok, _ := m.NextLine(text, pos)
				if !ok {
					break
				}
				lines = append(lines, start)
				pos = end
			}
			done <- lines
		}()
	}
	first := <-done
	for range 3 {
		if next := <-done; !slices.Equal(first, next) || len(next) != 100 {
			t.Errorf("found %d and %d lines", len(first), len(next))
		}
	}
}

// TestLineStart checks line breaks at all distances before a position. The other bytes differ from a line break in
// one bit.
func TestLineStart(t *testing.T) {
	for _, other := range []byte{0x0b, 0x08, 0x8a, 0x0a ^ 0x40, 0, 0xff, 'x'} {
		for size := range 40 {
			buf := bytes.Repeat([]byte{other}, size)
			for pos := range size + 1 {
				if got := lineStart(buf, pos); got != 0 {
					t.Fatalf("%d in %q without a line break: %d", pos, buf, got)
				}
				for at := range pos {
					buf[at] = '\n'
					if got := lineStart(buf, pos); got != at+1 {
						t.Fatalf("%d in %q: %d", pos, buf, got)
					}
					for before := range at {
						buf[before] = '\n'
						if got := lineStart(buf, pos); got != at+1 {
							t.Fatalf("%d in %q: %d", pos, buf, got)
						}
						buf[before] = other
					}
					buf[at] = other
				}
			}
		}
	}
}
