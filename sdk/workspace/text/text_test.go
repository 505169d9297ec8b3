package text_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kind(err error) tool.Kind {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Kind
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		data     string
		text     string
		encoding text.Encoding // empty if Decode must fail
	}{
		"empty":                   {"", "", text.UTF8},
		"ascii":                   {"a\r\nb", "a\r\nb", text.UTF8},
		"utf-8":                   {"naïve 你好 🙂\n", "naïve 你好 🙂\n", text.UTF8},
		"utf-8 with mark":         {"\xef\xbb\xbfx", "x", text.UTF8BOM},
		"mark alone":              {"\xef\xbb\xbf", "", text.UTF8BOM},
		"mark, then not utf-8":    {"\xef\xbb\xbf\xff", "", ""},
		"two marks":               {"\xef\xbb\xbf\xef\xbb\xbfx", "\ufeffx", text.UTF8BOM},
		"utf-16 le":               {"\xff\xfea\x00\n\x00=\xd8B\xde", "a\n🙂", text.UTF16LE},
		"utf-16 be":               {"\xfe\xff\x00a\x00\n\xd8=\xdeB", "a\n🙂", text.UTF16BE},
		"utf-16, empty":           {"\xff\xfe", "", text.UTF16LE},
		"utf-16, odd":             {"\xff\xfea", "", ""},
		"utf-16, half a pair":     {"\xff\xfe=\xd8a\x00", "", ""},
		"utf-16, cut pair":        {"\xff\xfe=\xd8", "", ""},
		"utf-16, low first":       {"\xfe\xff\xdeB\x00a", "", ""},
		"utf-32":                  {"\xff\xfe\x00\x00a\x00\x00\x00", "", ""},
		"windows":                 {"caf\xe9 \x80 \x93q\x94 \x81", "café € “q” \u0081", text.Windows1252},
		"overlong":                {"ab\xc0\x80 text", "abÀ€ text", text.Windows1252},
		"surrogate in utf-8":      {"x \xed\xa0\x80", "x í\u00a0€", text.Windows1252},
		"binary":                  {"\x7fELF\x02\x01\x01\x00\x00\xff", "", ""},
		"nul in the first 8 KB":   {strings.Repeat("x", 8191) + "\x00\xff", "", ""},
		"nul in valid utf-8":      {"a\x00b", "a\x00b", text.UTF8},
		"controls and not utf-8 ": {"\x01\x02\x03\xff\xfe", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := text.Decode([]byte(c.data))
			if c.encoding == "" {
				if kind(err) != tool.InvalidArguments {
					t.Fatalf("got %+v, error %v; want a refusal", got, err)
				}
				return
			}
			must(t, err)
			if string(got.Content) != c.text || got.Encoding != c.encoding || got.Guessed() != (c.encoding == text.Windows1252) {
				t.Errorf("got %q as %s", got.Content, got.Encoding)
			}
		})
	}
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		data, content string
		want          string // empty if Encode must fail
	}{
		{"caf\xe9", "café, café", "caf\xe9, caf\xe9"},
		{"caf\xe9", "naïve", ""}, // the real encoding can represent ï by another byte
		{"caf\xe9", "€", ""},
		{"caf\xe9", "你", ""},
		{"caf\xe9", "plain", "plain"},
		{"\x80", "€\u0080", ""},
		{"plain", "not utf-8 \xff", ""},
		{"\xff\xfea\x00", "é", "\xff\xfe\xe9\x00"},
		{"\xef\xbb\xbfa", "b", "\xef\xbb\xbfb"},
	} {
		text, err := text.Decode([]byte(c.data))
		must(t, err)
		got, err := text.Encode([]byte(c.content))
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("%q in a file of %q: got %q, error %v", c.content, c.data, got, err)
		}
	}
}

// FuzzRoundTrip checks that decoded text is encoded to the same bytes.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "a\n", "\xef\xbb\xbfx", "\xff\xfea\x00", "\xfe\xff\xd8=\xdeB", "caf\xe9\x81", "\x00", "\xff\xfe\x00\xd8", "\xb5\xc4\xc8\xcb\xc8\xcb\xc9\xfa\xb6\xf8", "\x82\xb7\x82\xd7\x82\xc4\x82\xcc\x90l", "\xa4H\xa4H\xa5\xcd\xa6\xd3\xa6\xdb", "\xb8\xf0\xb5\xe7 \xc0\xce\xb0\xa3\xc0\xba"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := text.Decode(data)
		if err != nil || text.Editable() != nil {
			return
		}
		if !utf8.Valid(text.Content) {
			t.Fatalf("the content is not UTF-8: %q", text.Content)
		}
		if got, err := text.Encode(text.Content); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("as %s: %q became %q, error %v", text.Encoding, data, got, err)
		}
	})
}

func TestBinary(t *testing.T) {
	random := make([]byte, 8192)
	_, _ = rand.Read(random)
	self, err := os.Executable()
	must(t, err)
	program, err := os.ReadFile(self)
	must(t, err)
	for name, c := range map[string]struct {
		data string
		want bool
	}{
		"empty":                  {"", false},
		"text":                   {"some text\n", false},
		"nul":                    {"text with \x00 in it", true},
		"nul behind the limit":   {strings.Repeat("x", 8192) + "\x00", false},
		"program":                {string(program), true},
		"random without nul":     {string(bytes.ReplaceAll(random, []byte{0}, []byte{1})), true},
		"colours":                {strings.Repeat("\x1b[31mred\x1b[0m\n", 50), false},
		"form feeds":             {strings.Repeat("page\f\n", 9), false},
		"one stray control":      {strings.Repeat("a line of text\n", 9) + "\x01", false},
		"mostly controls":        {strings.Repeat("\x01\x02x", 9), true},
		"latin-1":                {strings.Repeat("caf\xe9 ", 50), false},
		"gb18030":                {strings.Repeat("\xc4\xe3\xba\xc3", 50), false},
		"utf-16":                 {"\xff\xfea\x00b\x00", false},
		"utf-32":                 {"\xff\xfe\x00\x00a\x00\x00\x00", true},
		"character cut at limit": {strings.Repeat("x", 8191) + "é" + strings.Repeat("\x01", 100), false},
	} {
		if got := text.Binary([]byte(c.data)); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestLineEndings(t *testing.T) {
	for content, want := range map[string]struct {
		kind, main text.LineEnding
		final      bool
	}{
		"":                {text.NoLines, text.LF, false},
		"a":               {text.NoLines, text.LF, false},
		"a\nb":            {text.LF, text.LF, false},
		"a\nb\n":          {text.LF, text.LF, true},
		"a\r\nb\r\n":      {text.CRLF, text.CRLF, true},
		"a\rb\r":          {text.CR, text.CR, true},
		"a\r\nb\n":        {text.Mixed, text.LF, true},
		"a\r\nb\r\nc\n":   {text.Mixed, text.CRLF, true},
		"a\n\rb\n":        {text.LF, text.LF, true},
		"a\nb\r":          {text.LF, text.LF, false},
		"\r\r\n":          {text.CRLF, text.CRLF, true},
		"progress\r50%\n": {text.LF, text.LF, true},
	} {
		n := text.CountLineEndings([]byte(content))
		if n.Kind() != want.kind || n.Main() != want.main || n.Final != want.final {
			t.Errorf("%q: %+v is %s, mainly %s", content, n, n.Kind(), n.Main())
		}
	}
	for ending, want := range map[text.LineEnding]string{
		text.LF: "a\nb\nc\n\nd", text.CRLF: "a\r\nb\r\nc\r\n\r\nd", text.CR: "a\rb\rc\r\rd",
	} {
		if got := ending.Normalize([]byte("a\nb\r\nc\r\rd")); string(got) != want {
			t.Errorf("%s: %q", ending, got)
		}
	}
}

// TestDecodeLarge checks that above the size limit, Decode accepts only UTF-8.
func TestDecodeLarge(t *testing.T) {
	for begins, fits := range map[string]bool{"\xff\xfea\x00": false, "\xfe\xff\x00a": false, "\xe9t\xe9.": false, "\ufeffa": true, "a": true} {
		data := append([]byte(begins), bytes.Repeat([]byte{'a'}, text.MaxDecoded)...)
		_, err := text.Decode(data)
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "iconv -f") {
			t.Errorf("%q…: %v", begins, err)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 5 << 30: "5 GiB", 1 << 50: "1024 TiB"} {
		if got := text.FormatSize(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
