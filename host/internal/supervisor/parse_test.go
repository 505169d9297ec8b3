package supervisor

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

// logged returns the text in the host's log after the function "write" has written to the log.
func logged(write func(log *slog.Logger)) string {
	var out bytes.Buffer
	write(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	return out.String()
}

func TestLogLines(t *testing.T) {
	for line, want := range map[string]string{
		"plain text":                       `level=INFO msg="plain text" plugin=p`,
		`{"@level":"warn","@message":"m"}`: `level=WARN msg=m plugin=p`,
		`{"@level":"ERROR","@message":"m","x":1,"plugin":"q"}`:       `level=ERROR msg=m plugin=p fields.plugin=q fields.x=1`,
		`{"@level":"trace","@message":"m"}`:                          `level=DEBUG msg=m plugin=p`,
		`{"@level":"odd","@message":"m"}`:                            `level=INFO msg=m plugin=p`,
		`{"@level":1,"@message":["x"]}`:                              `level=INFO msg="{\"@level\":1,\"@message\":[\"x\"]}" plugin=p`,
		`{"@level":null,"@message":null}`:                            `level=INFO msg="{\"@level\":null,\"@message\":null}" plugin=p`,
		`{"@timestamp":"not a time","@level":"info","@message":"m"}`: `level=INFO msg=m plugin=p`,
		`{"@message":"a\nlevel=ERROR msg=forged"}`:                   `level=INFO msg="a\nlevel=ERROR msg=forged" plugin=p`,
		`{`:                    `level=INFO msg={ plugin=p`,
		`{"@message":`:         `level=INFO msg="{\"@message\":" plugin=p`,
		"\x1b[31mred\x1b[0m":   `level=INFO msg="\x1b[31mred\x1b[0m" plugin=p`,
		"\xff\xfe":             `level=INFO msg="\xff\xfe" plugin=p`,
		"[ERROR] looks like":   `level=INFO msg="[ERROR] looks like" plugin=p`,
		strings.Repeat("{", 9): `level=INFO msg={{{{{{{{{ plugin=p`,
	} {
		if got := strings.TrimSuffix(logged(func(l *slog.Logger) { (&sink{log: l, plugin: "p"}).write([]byte(line)) }), "\n"); got != want {
			t.Errorf("%q\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestScanLines(t *testing.T) {
	long := strings.Repeat("x", maxLogLine+5000)
	for _, tc := range []struct {
		in   string
		want []string
	}{
		{"", nil}, {"\n\n\r\n", nil}, {"a", []string{"a"}}, {"a\nb\r\n\nc", []string{"a", "b", "c"}}, {"a\x00b\n", []string{"a\x00b"}},
		{long + "\nafter\n", []string{long[:maxLogLine], "after"}}, {long + long + "\n", []string{long[:maxLogLine]}}, {long, []string{long[:maxLogLine]}},
		{strings.Repeat("y", maxLogLine) + "\nz", []string{strings.Repeat("y", maxLogLine), "z"}},
		{strings.Repeat("y", maxLogLine-1) + "\nz", []string{strings.Repeat("y", maxLogLine-1), "z"}},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(tc.in), "halves": iotest.HalfReader(strings.NewReader(tc.in)), "error": iotest.DataErrReader(strings.NewReader(tc.in))} {
			var got []string
			scanLines(r, func(b []byte) { got = append(got, string(b)) })
			if fmt.Sprint(len(got), got) != fmt.Sprint(len(tc.want), tc.want) {
				t.Errorf("%.20q %s: %d lines, wanted %d", tc.in, name, len(got), len(tc.want))
			}
		}
	}
}

func TestLastWords(t *testing.T) {
	many := func(n int, s string) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(s, i))
		}
		return out
	}
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing":         {nil, ""},
		"one":             {[]string{"a"}, "  a"},
		"the last 8":      {many(20, "line %d"), "  " + strings.Join(many(20, "line %d")[12:], "\n  ")},
		"panic":           {append(append([]string{"before", "panic: oh", "\tmore"}, "goroutine 1 [running]:"), many(500, "main.f%d()")...), "  panic: oh\n  \tmore"},
		"panic alone":     {[]string{"panic: oh"}, "  panic: oh"},
		"fatal error":     {[]string{"x", "fatal error: stack overflow", "", "goroutine 9"}, "  fatal error: stack overflow\n  "},
		"second panic":    {[]string{"panic: a", "panic: b"}, "  panic: a\n  panic: b"},
		"long panic":      {append([]string{"panic: a"}, many(100, "m%d")...), "  panic: a\n  " + strings.Join(many(7, "m%d"), "\n  ")},
		"not a panic":     {[]string{"no panic: a", "b"}, "  no panic: a\n  b"},
		"not UTF-8":       {[]string{"a\xff"}, "  a\uFFFD"},
		"signal":          {[]string{"x", "SIGABRT: abort", "PC=0x47 m=0 sigcode=0", "", "goroutine 0 gp=0x1 m=0 [idle]:", "main.f()", "rax    0x0", "rip    0x47"}, "  SIGABRT: abort\n  "},
		"segment fault":   {[]string{"panic: runtime error: invalid memory address or nil pointer dereference", "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]", "goroutine 1"}, "  panic: runtime error: invalid memory address or nil pointer dereference"},
		"goroutine first": {[]string{"goroutine 1"}, "  goroutine 1"},
	} {
		tl := newTail(lastWordsSize)
		for _, l := range tc.lines {
			tl.add([]byte(l))
		}
		if got := tl.said(); got != tc.want {
			t.Errorf("%s: %q, wanted %q", name, got, tc.want)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	for _, first := range []string{"x", "panic: x"} {
		tl := newTail(1000)
		tl.add([]byte(first))
		for range 10_000 {
			tl.add(bytes.Repeat([]byte("y"), 100))
		}
		tl.add([]byte("panic: y"))
		for range 10_000 {
			tl.add(bytes.Repeat([]byte("z"), 100))
		}
		if tl.size > 1200 || len(tl.lines) > 20 {
			t.Errorf("%q: %d bytes in %d lines", first, tl.size, len(tl.lines))
		}
	}
	// tail must keep a single line even if the line exceeds the limit. It must copy the line, because the
	// caller can reuse the slice.
	tl, line := newTail(10), []byte("a line that is too long")
	tl.add(line)
	clear(line)
	if tl.said() != "  a line that is too long" {
		t.Errorf("%q", tl.said())
	}
}

func TestHandshakeLines(t *testing.T) {
	for line, want := range map[string]int64{
		"1|2|unix|/tmp/x|grpc|": 2, "1|2|unix|/tmp/x|grpc": 2, "1|3|unix|/tmp/x|grpc|cert|true": 3, "1|0|unix|/x|grpc": 0, "1|-5|unix|/x|grpc": -5,
		"": -1, "hello": -1, "1|2|unix|/tmp/x": -1, "a|2|unix|/x|grpc": -1, "1|b|unix|/x|grpc": -1, "||||": -1, "1|2 |unix|/x|grpc": -1, "1|99999999999999999999|unix|/x|grpc": -1, "\xff|2|unix|x|grpc": -1,
	} {
		p := new(process)
		ok := p.accept(line)
		if ok != (want != -1) || ok && p.version.Load() != want {
			t.Errorf("%q: %v, version %d", line, ok, p.version.Load())
		}
	}
}

func TestLogWriter(t *testing.T) {
	got := logged(func(l *slog.Logger) {
		w := &logWriter{&sink{log: l, plugin: "p"}}
		if n, err := w.Write([]byte("a\n\nb\r\n" + strings.Repeat("x", maxLogLine+10))); err != nil || n != 6+maxLogLine+10 {
			t.Errorf("%d %v", n, err)
		}
	})
	if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "msg=b ") || len(lines[2]) > maxLogLine+100 {
		t.Errorf("%d lines", len(lines))
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add([]byte(`{"@level":"warn","@message":"m"}`))
	f.Add([]byte("panic: x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tl := newTail(100)
		log := slog.New(slog.NewJSONHandler(io.Discard, nil))
		scanLines(bytes.NewReader(b), func(l []byte) {
			(&sink{log: log, plugin: "p"}).write(l)
			tl.add(l)
		})
		_ = tl.said()
		new(process).accept(string(b))
	})
}
