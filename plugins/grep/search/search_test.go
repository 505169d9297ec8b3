package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"toolhost.dev/plugins/grep/pattern"
)

var all = Window{To: math.MaxInt}

func compiled(t testing.TB, expr string, multiline bool) *pattern.Pattern {
	t.Helper()
	p, err := pattern.Compile(expr, pattern.Options{Multiline: multiline})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// show formats each line of a result as "number:column:text". A context line has "-" instead of ":".
func show(r Result) string {
	var b strings.Builder
	for _, l := range r.Lines {
		sep := "-"
		if l.Match {
			sep = ":"
		}
		fmt.Fprintf(&b, "%d%s%d%s%s\n", l.Number, sep, l.Column, sep, l.Text)
	}
	return b.String()
}

func found(t testing.TB, expr string, multiline bool, o Options, text string, explicit bool, w Window) Result {
	t.Helper()
	r, err := New(t.Context(), compiled(t, expr, multiline), o).Search(File{Reader: strings.NewReader(text), Explicit: explicit}, w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLines(t *testing.T) {
	const text = "a\nb x\nc\nd\ne x x\nf x\ng\nh\n"
	for _, tc := range []struct {
		name string
		o    Options
		w    Window
		want string
	}{
		{"all", Options{}, all, "2:3:b x\n5:3:e x x\n6:3:f x\n"},
		{"before", Options{Before: 1}, all, "1-0-a\n2:3:b x\n4-0-d\n5:3:e x x\n6:3:f x\n"},
		{"after", Options{After: 1}, all, "2:3:b x\n3-0-c\n5:3:e x x\n6:3:f x\n7-0-g\n"},
		{"both", Options{Before: 9, After: 9}, all, "1-0-a\n2:3:b x\n3-0-c\n4-0-d\n5:3:e x x\n6:3:f x\n7-0-g\n8-0-h\n"},
		{"first", Options{Before: 1, After: 1}, Window{To: 1}, "1-0-a\n2:3:b x\n3-0-c\n"},
		{"second", Options{Before: 1, After: 1}, Window{From: 1, To: 2}, "4-0-d\n5:3:e x x\n6-0-f x\n"},
		{"third", Options{Before: 1, After: 1}, Window{From: 2, To: 3}, "5-0-e x x\n6:3:f x\n7-0-g\n"},
		{"none", Options{Before: 1, After: 1}, Window{}, ""},
		{"count", Options{Mode: Count, Before: 1}, all, ""},
	} {
		r := found(t, "x", false, tc.o, text, false, tc.w)
		if got := show(r); got != tc.want {
			t.Errorf("%s: got\n%swant\n%s", tc.name, got, tc.want)
		}
		if r.Matches != 3 {
			t.Errorf("%s: %d matches", tc.name, r.Matches)
		}
	}
	if r := found(t, "x", false, Options{Mode: First}, text, false, all); r.Matches != 1 {
		t.Errorf("first: %d matches", r.Matches)
	}
}

func TestAcrossLines(t *testing.T) {
	const text = "a{\nb\n}\nc{ }\n-\n{\n\n}d{\n}\nend"
	for _, tc := range []struct {
		expr string
		o    Options
		w    Window
		want string
		n    int
	}{
		{`\{[^}]*\}`, Options{}, all, "1:2:a{\n2:0:b\n3:0:}\n4:2:c{ }\n6:1:{\n7:0:\n8:0:}d{\n9:0:}\n", 3},
		{`\{[^}]*\}`, Options{Mode: Count}, all, "", 4},
		{`\{[^}]*\}`, Options{After: 1, Before: 1}, Window{From: 1, To: 2}, "3-0-}\n4:2:c{ }\n5-0--\n", 3},
		{`\{[^}]*\}`, Options{After: 1, Before: 1}, Window{From: 2, To: 3}, "5-0--\n6:1:{\n7:0:\n8:0:}d{\n9:0:}\n10-0-end\n", 3},
		{`d$`, Options{}, all, "10:3:end\n", 1},
		{`\n`, Options{Mode: Count}, all, "", 9},
		{`z\n`, Options{}, all, "", 0},
	} {
		r := found(t, tc.expr, true, tc.o, text, false, tc.w)
		if got := show(r); got != tc.want || r.Matches != tc.n {
			t.Errorf("%s %+v: %d matches\n%swant %d\n%s", tc.expr, tc.o, r.Matches, got, tc.n, tc.want)
		}
	}
}

// naive searches a text with a simple algorithm. Tests compare its result with the result of the package.
func naive(re *regexp.Regexp, text string, o Options) string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	match := make([]bool, len(lines))
	wanted := make([]bool, len(lines))
	for i, l := range lines {
		if match[i] = re.MatchString(strings.TrimSuffix(l, "\n")); match[i] {
			for j := max(0, i-o.Before); j <= min(len(lines)-1, i+o.After); j++ {
				wanted[j] = true
			}
		}
	}
	var b strings.Builder
	for i, l := range lines {
		switch text := strings.TrimSuffix(l, "\n"); {
		case match[i]:
			fmt.Fprintf(&b, "%d:%d:%s\n", i+1, re.FindStringIndex(text)[0]+1, text)
		case wanted[i]:
			fmt.Fprintf(&b, "%d-0-%s\n", i+1, text)
		}
	}
	return b.String()
}

// TestBufferBoundaries searches texts that fill many buffers, with lines of all lengths. The results must equal those
// of a simple algorithm.
func TestBufferBoundaries(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, expr := range []string{"needle", `ne+dle\w`, "^n", "e$", "^$"} {
		re := regexp.MustCompile("(?m)" + expr)
		for range 12 {
			var b strings.Builder
			for b.Len() < 3*capacity {
				b.WriteString(strings.Repeat("x", r.IntN(1<<r.IntN(18))))
				b.WriteString([]string{"needle", "needles", "", " e"}[r.IntN(4)])
				b.WriteString([]string{"\n", "\n", "\n", ""}[r.IntN(4)])
			}
			text := b.String()
			o := Options{Before: r.IntN(4), After: r.IntN(4)}
			s := New(t.Context(), compiled(t, expr, false), o)
			res, err := s.Search(File{Reader: iotest.HalfReader(strings.NewReader(text))}, all)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := show(res), naive(re, text, o); got != want {
				t.Fatalf("%s %+v: differs in a text of %d bytes", expr, o, len(text))
			}
		}
	}
}

func TestBinary(t *testing.T) {
	far := strings.Repeat("y\n", capacity)
	for _, tc := range []struct {
		name      string
		text      string
		mode      Mode
		multiline bool
		explicit  bool
		want      string
		matches   int
		binary    int64
		hidden    bool
	}{
		{"walked", "x\n\x00", Lines, false, false, "", 0, 2, false},
		{"walked, late", "x\n" + far + "\x00x\n", Lines, false, false, "1:1:x\n", 1, 2 + 2*capacity, false},
		{"walked, counted", "x\n" + far + "\x00x\n", Count, false, false, "", 0, 2 + 2*capacity, false},
		{"walked, first", "x\n" + far + "\x00x\n", First, false, false, "", 1, -1, false},
		{"walked, across", "x\n\x00", Lines, true, false, "", 0, 2, false},
		{"named", "x\n\x00", Lines, false, true, "", 0, 2, true},
		{"named, late", "x\n" + far + "\x00x\nx\n", Lines, false, true, "1:1:x\n", 1, 2 + 2*capacity, true},
		{"named, late elsewhere", "x\n" + far + "\x00\nx\n", Lines, false, true, fmt.Sprintf("1:1:x\n%d:1:x\n", capacity+3), 2, -1, false},
		{"named, counted", "x\n\x00x\n", Count, false, true, "", 2, 2, false},
		{"named, first", "\x00\nx\n", First, false, true, "", 1, 0, false},
		{"named, no match", "y\x00", Lines, false, true, "", 0, 1, false},
	} {
		expr := "x"
		if tc.multiline {
			expr = `x\s`
		}
		r := found(t, expr, tc.multiline, Options{Mode: tc.mode}, tc.text, tc.explicit, all)
		if got := show(r); got != tc.want || r.Matches != tc.matches || r.Binary != tc.binary || r.BinaryMatch != tc.hidden {
			t.Errorf("%s: %d matches, NUL at %d, hidden %v\n%swant %d, %d, %v\n%s", tc.name, r.Matches, r.Binary, r.BinaryMatch, got, tc.matches, tc.binary, tc.hidden, tc.want)
		}
	}
}

func TestEncodings(t *testing.T) {
	for name, text := range map[string]string{
		"utf8":           "caf\u00e9 x\n",
		"utf8 with mark": "\xEF\xBB\xBFcaf\u00e9 x\n",
		"utf16le":        "\xFF\xFEc\x00a\x00f\x00\xe9\x00 \x00x\x00\n\x00",
		"utf16be":        "\xFE\xFF\x00c\x00a\x00f\x00\xe9\x00 \x00x\x00\n",
	} {
		for _, multiline := range []bool{false, true} {
			r := found(t, "^caf\u00e9\\sx", multiline, Options{}, text, false, all)
			if got := show(r); got != "1:1:caf\u00e9 x\n" {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	r := found(t, "x", false, Options{}, "\xffx\xe2\x82y\n", false, all)
	if got := show(r); got != "1:2:\uFFFDx\uFFFDy\n" {
		t.Errorf("not UTF-8: %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		text          string
		at, limit     int
		want          string
		before, after int
	}{
		{"abcdef", 0, 0, "abcdef", 0, 0}, {"abcdef", 0, 6, "abcdef", 0, 0}, {"abcdef", 0, 4, "abcd", 0, 2}, {"abcdefghijkl", 11, 4, "ijkl", 8, 0}, {"abcdefghijkl", 6, 4, "fghi", 5, 3},
		{"abcdefghijklmnopqrstuvwx", 10, 12, "hijklmnopqrs", 7, 5}, {"abcdefghijklmnopqrstuvwx", 9, 12, "abcdefghijkl", 0, 12}, {"äöüß", 0, 4, "äöüß", 0, 0}, {"äöüßé", 0, 4, "äöüß", 0, 1}, {"äöüßéàè", 12, 4, "ßéàè", 3, 0}, {"\xff\xfeabc", 0, 4, "\uFFFD\uFFFDab", 0, 1},
	} {
		l := cut([]byte(tc.text), tc.at, tc.limit)
		if l.Text != tc.want || l.CutBefore != tc.before || l.CutAfter != tc.after {
			t.Errorf("%q at %d to %d: %q, %d before, %d after", tc.text, tc.at, tc.limit, l.Text, l.CutBefore, l.CutAfter)
		}
	}
}

func TestValid(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "\xff\xfe": "\uFFFD\uFFFD", "\xe2\x82": "\uFFFD", "\xe2\x82x": "\uFFFDx", "\xf0\x9f\x98": "\uFFFD", "\xf0\x9f\x98\x80": "\U0001F600", "\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", "\xc3\xc3\xa9": "\uFFFD\u00e9", "\uFFFD": "\uFFFD"} {
		if got := valid([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// endless is a reader that repeats one byte without end.
type endless struct{ b byte }

func (e endless) Read(p []byte) (int, error) {
	p[0] = e.b
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	return len(p), nil
}

func TestLimits(t *testing.T) {
	s := New(t.Context(), compiled(t, "x", false), Options{})
	if _, err := s.Search(File{Reader: endless{'y'}}, all); !errors.Is(err, ErrLongLine) {
		t.Errorf("an endless line: %v", err)
	}
	if r, err := s.Search(File{Reader: strings.NewReader("x\n")}, all); err != nil || r.Matches != 1 || len(s.buf.buf) != capacity {
		t.Errorf("after a long line: %v, %v, a buffer of %d", r, err, len(s.buf.buf))
	}
	across := New(t.Context(), compiled(t, `x\n`, true), Options{})
	if _, err := across.Search(File{Reader: io.LimitReader(endless{'y'}, MaxWhole+10)}, all); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large file across lines: %v", err)
	}
	if _, err := across.Search(File{Reader: strings.NewReader(""), Size: MaxWhole + 1}, all); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file of a large size: %v", err)
	}
	// If a file has many matches, only a limited number of lines are kept, but all matches are counted.
	text := bytes.Repeat([]byte("x"+strings.Repeat("y", 400)+"\n"), 50_000)
	r, err := s.Search(File{Reader: bytes.NewReader(text)}, all)
	if err != nil || r.Matches != 50_000 || len(r.Lines) > MaxKept/400 || len(r.Lines) == 0 {
		t.Errorf("%d matches, %d lines kept, %v", r.Matches, len(r.Lines), err)
	}
}

func TestErrorsOfReading(t *testing.T) {
	broken := errors.New("broken")
	for _, multiline := range []bool{false, true} {
		expr := map[bool]string{false: "x", true: `x\s`}[multiline]
		s := New(t.Context(), compiled(t, expr, multiline), Options{})
		if _, err := s.Search(File{Reader: io.MultiReader(strings.NewReader(strings.Repeat("x\n", capacity)), iotest.ErrReader(broken))}, all); !errors.Is(err, broken) {
			t.Errorf("multiline %v: %v", multiline, err)
		}
		if _, err := s.Search(File{Reader: iotest.ErrReader(broken)}, all); !errors.Is(err, broken) {
			t.Errorf("multiline %v, at once: %v", multiline, err)
		}
	}
}

func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := New(ctx, compiled(t, "x", false), Options{})
	stop := iotest.TimeoutReader(endless{'\n'}) // the reader's timeout is never reached, because the context ends first
	cancel()
	if _, err := s.Search(File{Reader: stop}, all); !errors.Is(err, context.Canceled) {
		t.Errorf("went on: %v", err)
	}
}
