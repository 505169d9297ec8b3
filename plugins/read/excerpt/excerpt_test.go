package excerpt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestOf(t *testing.T) {
	long := strings.Repeat("x", 3000)
	wide := strings.Repeat("é", 1999) + "abc"
	for name, c := range map[string]struct {
		content string
		window  Window
		want    Excerpt
	}{
		"empty":                  {"", Window{}, Excerpt{Counted: true}},
		"a newline":              {"\n", Window{}, Excerpt{Text: "\n", Start: 1, End: 1, Total: 1, Counted: true}},
		"all":                    {"a\nb\n", Window{}, Excerpt{Text: "a\nb\n", Start: 1, End: 2, Total: 2, Counted: true}},
		"no final newline":       {"a\nb", Window{}, Excerpt{Text: "a\nb", Start: 1, End: 2, Total: 2, Counted: true}},
		"numbers":                {"a\nb\n", Window{Numbers: true}, Excerpt{Text: "1| a\n2| b", Start: 1, End: 2, Total: 2, Counted: true}},
		"middle":                 {"a\nb\nc\n", Window{Start: 2, Lines: 1}, Excerpt{Text: "b", Start: 2, End: 2, Total: 3, Counted: true}},
		"up to the end":          {"a\nb\nc\n", Window{Start: 2}, Excerpt{Text: "b\nc\n", Start: 2, End: 3, Total: 3, Counted: true}},
		"exactly the end":        {"a\nb\nc\n", Window{Start: 2, Lines: 2}, Excerpt{Text: "b\nc", Start: 2, End: 3, Total: 3, Counted: true}},
		"beyond the end":         {"a\nb\nc\n", Window{Start: 2, Lines: 9}, Excerpt{Text: "b\nc\n", Start: 2, End: 3, Total: 3, Counted: true}},
		"start past the end":     {"a\nb\n", Window{Start: 3}, Excerpt{Total: 2, Counted: true}},
		"last line":              {"a\nb", Window{Start: 2}, Excerpt{Text: "b", Start: 2, End: 2, Total: 2, Counted: true}},
		"empty lines":            {"\n\n\n", Window{Numbers: true}, Excerpt{Text: "1| \n2| \n3| ", Start: 1, End: 3, Total: 3, Counted: true}},
		"crlf":                   {"a\r\nb\r\n", Window{}, Excerpt{Text: "a\nb\n", Start: 1, End: 2, Total: 2, Counted: true}},
		"a bare return":          {"a\rb\r\r\n", Window{}, Excerpt{Text: "a\rb\r\n", Start: 1, End: 1, Total: 1, Counted: true}},
		"return at the end":      {"a\r", Window{}, Excerpt{Text: "a\r", Start: 1, End: 1, Total: 1, Counted: true}},
		"width of the last line": {lines(12), Window{Start: 9, Lines: 3, Numbers: true}, Excerpt{Text: " 9| line 9\n10| line 10\n11| line 11", Start: 9, End: 11, Total: 12, Counted: true}},
		"width of the last line shown, not of the file": {lines(12), Window{Start: 8, Lines: 2, Numbers: true}, Excerpt{Text: "8| line 8\n9| line 9", Start: 8, End: 9, Total: 12, Counted: true}},
		"long line":    {"a\n" + long + "\nb\n", Window{}, Excerpt{Text: "a\n" + long[:2000] + "… [line cut here: 1000 more bytes]\nb\n", Start: 1, End: 3, Total: 3, CutLines: 1, Counted: true}},
		"wide line":    {wide, Window{}, Excerpt{Text: wide[:2*1999+1] + "… [line cut here: 2 more bytes]", Start: 1, End: 1, Total: 1, CutLines: 1, Counted: true}},
		"2000 wide":    {wide[:2*1999], Window{}, Excerpt{Text: wide[:2*1999], Start: 1, End: 1, Total: 1, Counted: true}},
		"line cap":     {strings.Repeat("\n", 2500), Window{}, Excerpt{Text: strings.Repeat("\n", 1999), Start: 1, End: 2000, Total: 2500, Capped: ByLines, Counted: true}},
		"limit beyond": {strings.Repeat("\n", 2500), Window{Start: 400, Lines: 2200}, Excerpt{Text: strings.Repeat("\n", 1999), Start: 400, End: 2399, Total: 2500, Capped: ByLines, Counted: true}},
		"2000 lines":   {strings.Repeat("\n", 2000), Window{}, Excerpt{Text: strings.Repeat("\n", 2000), Start: 1, End: 2000, Total: 2000, Counted: true}},
		"byte cap":     {strings.Repeat(strings.Repeat("y", 1023)+"\n", 60), Window{}, Excerpt{Text: strings.TrimSuffix(strings.Repeat(strings.Repeat("y", 1023)+"\n", 50), "\n"), Start: 1, End: 50, Total: 60, Capped: ByBytes, Counted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of([]byte(c.content), c.window); got != c.want {
				t.Errorf("got  %.200q\nwant %.200q", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", c.want))
			}
			got, err := Scan(t.Context(), strings.NewReader(c.content), c.window, math.MaxInt64, nil)
			if err != nil || got != c.want {
				t.Errorf("scanned: got %.200q, error %v", fmt.Sprintf("%+v", got), err)
			}
		})
	}
}

// FuzzScan reads a text both in chunks and as a whole. The two excerpts must be equal.
func FuzzScan(f *testing.F) {
	f.Add("a\nb\r\nc", 1, 0, false)
	f.Add(strings.Repeat("é", 9000)+"\n\n"+strings.Repeat("z", 8005), 1, 3, true)
	f.Add(strings.Repeat(strings.Repeat("q", 3000)+"\n", 40), 2, 0, false)
	f.Add(lines(3000), 500, 2100, true)
	f.Fuzz(func(t *testing.T, content string, start, count int, numbers bool) {
		if !utf8.ValidString(content) || start < 0 || count < 0 || count > 1<<20 {
			return
		}
		w := Window{Start: start, Lines: count, Numbers: numbers}
		want := Of([]byte(content), w)
		readers := []io.Reader{strings.NewReader(content), iotest.DataErrReader(iotest.HalfReader(strings.NewReader(content)))}
		if len(content) < 1<<10 {
			readers = append(readers, iotest.OneByteReader(strings.NewReader(content)))
		}
		for _, r := range readers {
			if got, err := Scan(context.Background(), r, w, math.MaxInt64, nil); err != nil || got != want {
				t.Fatalf("got %.300q, error %v\nwant %.300q", fmt.Sprintf("%+v", got), err, fmt.Sprintf("%+v", want))
			}
		}
		if len(want.Text) > MaxBytes && want.End > want.Start {
			t.Fatalf("%d bytes are shown", len(want.Text))
		}
	})
}

// TestScanGivesUpCounting reads an endless text. The excerpt must be returned, counting lines must stop, and memory
// use must stay small.
func TestScanGivesUpCounting(t *testing.T) {
	endless := &repeating{text: []byte("0123456789\n")}
	e, err := Scan(t.Context(), endless, Window{Start: 1000, Lines: 2}, 1<<20, nil)
	if err != nil || e.Text != "0123456789\n0123456789" || e.Counted || e.Total < 1000 || e.Capped != NotCapped {
		t.Errorf("got %+v, error %v", e, err)
	}
	if limit := int64(3 << 20); endless.read > limit {
		t.Errorf("%d bytes were read, want less than %d", endless.read, limit)
	}
}

// TestScanEndlessLine reads a text that consists of one endless line.
func TestScanEndlessLine(t *testing.T) {
	e, err := Scan(t.Context(), io.LimitReader(&repeating{text: []byte("é")}, 64<<20), Window{}, math.MaxInt64, nil)
	want := strings.Repeat("é", 2000) + fmt.Sprintf("… [line cut here: %d more bytes]", 64<<20-4000)
	if err != nil || e.Text != want || e.Total != 1 || e.CutLines != 1 {
		t.Errorf("got %.100q…, error %v", fmt.Sprintf("%+v", e), err)
	}
}

func TestScanEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ctx, &repeating{text: []byte("a\n")}, Window{Start: math.MaxInt}, math.MaxInt64, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	broken := errors.New("broken")
	if _, err := Scan(t.Context(), iotest.ErrReader(broken), Window{}, 1, nil); !errors.Is(err, broken) {
		t.Errorf("a read error: %v", err)
	}
}

func TestScanConverts(t *testing.T) {
	upper := func(b []byte) ([]byte, error) { return bytes.ToUpper(b), nil }
	e, err := Scan(t.Context(), strings.NewReader("a\nb\nc\n"), Window{Start: 2, Lines: 1}, math.MaxInt64, upper)
	if err != nil || e.Text != "B" {
		t.Errorf("got %+v, error %v", e, err)
	}
}

type repeating struct {
	text []byte
	at   int
	read int64
}

func (r *repeating) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	r.read += int64(len(p))
	return len(p), nil
}

func BenchmarkOf10KB(b *testing.B) {
	content := []byte(strings.Repeat("a line of some thirty characters\n", 310))
	for name, w := range map[string]Window{"plain": {}, "numbers": {Numbers: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Of(content, w)
			}
		})
	}
}
