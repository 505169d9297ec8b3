package screen

import (
	"strings"
	"testing"
)

// sequences maps output texts of tools to the texts that a terminal must receive.
var sequences = map[string]string{
	"plain ünïcode 日本 👩‍👩‍👧\ttab\n": "plain ünïcode 日本 👩‍👩‍👧\ttab\n",
	"a\r\nb\r\n":                             "a\nb\n",
	"\x1b[31mred\x1b[0m":                     "\x1b[31mred\x1b[0m",
	"\x1b[1;38;5;200mx\x1b[m":                "\x1b[1;38;5;200mx\x1b[m",
	"\x1b[4:3;38:2::1:2:3mx\x1b[0;0m":        "\x1b[4:3;38:2::1:2:3mx\x1b[0;0m",
	"\x1b[32mnot reset":                      "\x1b[32mnot reset\x1b[0m",
	"\x1b]52;c;aGk=\x07":                     "␛]52;c;aGk=␇",
	"\x1b]0;title\x1b\\":                     "␛]0;title␛\\",
	"\x1b]2;title\x07":                       "␛]2;title␇",
	"\x1b]8;;http://x\x1b\\y":                "␛]8;;http://x␛\\y",
	"\x1b[2J\x1b[H\x1b[6n":                   "␛[2J␛[H␛[6n",
	"\x1b[>4m\x1b[?4m\x1b[1 m":               "␛[>4m␛[?4m␛[1 m",
	"\x1bP$qm\x1b\\":                         "␛P$qm␛\\",
	"\x1b_Gf=100;x\x1b\\":                    "␛_Gf=100;x␛\\",
	"\x1bc\x1b#8\x1b(0":                      "␛c␛#8␛(0",
	"\x1b^pm\x1b\\\x1bXsos\x1b\\":            "␛^pm␛\\␛Xsos␛\\",
	"\x9b2J\x9d52;c;x\x9c\x90q\x9c":          `\x9b2J\x9d52;c;x\x9c\x90q\x9c`,
	"\u009b2J\u009d0;t\u009c":                `\u009b2J\u009d0;t\u009c`,
	"a\u202eb\u2066c\u2069\u200f\u061c":      `a\u202eb\u2066c\u2069\u200f\u061c`,
	"\u2028\ufeff\u200b\U000e0041":           `\u2028\ufeff\u200b\U000e0041`,
	"\a\b\x00\x7f\v\f\x0e\rover":             "␇␈␀␡␋␌␎␍over",
	"\xff\xc3(":                              `\xff\xc3(`,
	"\x1b\x1b[31m":                           "␛\x1b[31m\x1b[0m",
	"\x1b[31\x1b[2J":                         "␛[31␛[2J",
	"\x1b[" + strings.Repeat("1;", 40) + "m": "␛[" + strings.Repeat("1;", 40) + "m",
	"\x1b":                                   "␛", "\x1b[": "␛[", "\x1b[3": "␛[3", "\r": "␍", "\xe2\x80": `\xe2\x80`,
}

// TestSequences checks the output for each text. The text is written as a whole, byte by byte, and in two parts for
// every position of the split.
func TestSequences(t *testing.T) {
	for text, want := range sequences {
		parts := [][]string{{text}, strings.Split(text, "")[:0]}
		for i := range len(text) {
			parts = append(parts, []string{text[:i], text[i:]})
			parts[1] = append(parts[1], text[i:i+1])
		}
		for _, chunks := range parts {
			var out strings.Builder
			w := &Writer{w: &out}
			for _, c := range chunks {
				if n, err := w.Write([]byte(c)); n != len(c) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := w.Flush(); err != nil || out.String() != want {
				t.Errorf("%q: %q, wanted %q (%v)", chunks, out.String(), want, err)
			}
		}
		var out strings.Builder
		w := &Writer{w: &out, raw: true}
		_, _ = w.Write([]byte(text))
		if _ = w.Flush(); out.String() != text {
			t.Errorf("%q: a pipe gets %q", text, out.String())
		}
	}
}

// FuzzWriter checks that a terminal receives no control characters except line feeds, tabs and color sequences. The
// writes can split the text at any position.
func FuzzWriter(f *testing.F) {
	for text := range sequences {
		f.Add([]byte(text), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var out strings.Builder
		w := &Writer{w: &out}
		at = max(0, min(at, len(text)))
		_, _ = w.Write(text[:at])
		_, _ = w.Write(text[at:])
		_ = w.Flush()
		rest := out.String()
		for i := strings.IndexByte(rest, 0x1b); i >= 0; i = strings.IndexByte(rest, 0x1b) {
			n, _ := color([]byte(rest[i:]))
			if n == 0 {
				t.Fatalf("%q became %q", text, out.String())
			}
			rest = rest[:i] + rest[i+n:]
		}
		for _, r := range rest {
			if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q became %q", text, out.String())
			}
		}
	})
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"rm \x1b[31mx\x1b[0m\n\ty": "rm ␛[31mx␛[0m␊\ty", "a\u202eb\u200d\u200b": `a\u202eb\u200d\u200b`, "\x9b2J\u009b": `\x9b2J\u009b`, "\uFFFD ä": "\uFFFD ä",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, wanted %q", text, got, want)
		}
	}
}
