package lines_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"toolhost.dev/sdk/lines"
)

// read reads all lines of in. For an overlong line, it also appends the line's tail, which the error contains.
func read(t *testing.T, in io.Reader, limit int) (out []string, err error) {
	t.Helper()
	r := lines.NewReader(in, limit)
	for {
		line, err := r.Read()
		var long *lines.TooLongError
		switch {
		case errors.As(err, &long):
			if long.Limit != limit {
				t.Errorf("the error names the limit %d", long.Limit)
			}
			out = append(out, string(line)+"…"+string(long.Tail))
			if long.Err != nil {
				return append(out, "$"), err
			}
		case err != nil:
			return append(out, string(line)+"$"), err
		default:
			out = append(out, string(line))
		}
	}
}

func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string // "$" marks the end of the stream, and "…" an overlong line
	}{
		"empty":                   {"", []string{"$"}},
		"lines":                   {"a\nbc\n", []string{"a", "bc", "$"}},
		"empty lines":             {"\n\r\n\n", []string{"", "", "", "$"}},
		"carriage returns":        {"a\r\nb\rc\r\r\n", []string{"a", "b\rc\r", "$"}},
		"no line ending":          {"a\nbc", []string{"a", "bc$"}},
		"carriage return at end":  {"a\r", []string{"a\r$"}},
		"as long as the limit":    {"12345\n12345\r\n12345", []string{"12345", "12345", "12345$"}},
		"one byte longer":         {"123456\n12\n", []string{"12345…123456", "12", "$"}},
		"longer, carriage return": {"123456\r\n12\n", []string{"12345…123456", "12", "$"}},
		"two bytes longer":        {"1234567\n12\n", []string{"12345…1234567", "12", "$"}},
		"much longer":             {"123456789\r\n12\n", []string{"12345…123456789", "12", "$"}},
		"longer, no line ending":  {"12\n123456", []string{"12", "12345…123456", "$"}},
		"longer, then nothing":    {"123456789\n", []string{"12345…123456789", "$"}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{"at once": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := read(t, in, 5)
				if strings.Join(got, "|") != strings.Join(c.want, "|") || !errors.Is(err, io.EOF) {
					t.Errorf("%s: %q, %v; want %q", how, got, err, c.want)
				}
			}
		})
	}
}

// TestReaderLong checks lines that are longer than every buffer. They must be cut if they exceed the limit.
func TestReaderLong(t *testing.T) {
	const limit = 1 << 20
	fits := strings.Repeat("x", limit)
	long := "begin" + strings.Repeat("y", 5<<20) + "end"
	got, err := read(t, strings.NewReader(fits+"\n"+long+"\r\nnext\n"), limit)
	if len(got) != 4 || got[0] != fits || got[2] != "next" || got[3] != "$" || !errors.Is(err, io.EOF) {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	head, tail, _ := strings.Cut(got[1], "…")
	if head != long[:64<<10] || tail != long[len(long)-512:] {
		t.Errorf("head has %d bytes, tail has %d", len(head), len(tail))
	}
}

// TestReaderKeeps checks that a returned line stays unchanged during later reads.
func TestReaderKeeps(t *testing.T) {
	r := lines.NewReader(strings.NewReader("first\n"+strings.Repeat("z", 300<<10)+"\nlast\n"), 8)
	first, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	head, err := r.Read()
	var long *lines.TooLongError
	if !errors.As(err, &long) || err.Error() != "the line is longer than 8 bytes" {
		t.Fatal(err)
	}
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if string(first) != "first" || string(head) != "zzzzzzzz" || !bytes.Equal(long.Tail, bytes.Repeat([]byte("z"), 512)) {
		t.Errorf("%q, %q, %q", first, head, long.Tail)
	}
}

func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "ab", "123456789"} {
		got, err := read(t, io.MultiReader(strings.NewReader("a\n"+in), iotest.ErrReader(broken)), 5)
		if want := map[string]string{"": "a|$", "ab": "a|ab$", "123456789": "a|12345…123456789|$"}[in]; strings.Join(got, "|") != want || !errors.Is(err, broken) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
