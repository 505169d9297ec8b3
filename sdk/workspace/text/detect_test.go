package text_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"
)

// samples contains prose in each encoding. If a text has at least as many characters as the field "certain", its
// encoding must be detected.
var samples = []struct {
	language string
	encoding text.Encoding
	codec    encoding.Encoding
	certain  int
}{
	{"zh-hans", text.GBK, simplifiedchinese.GBK, 8}, {"zh-hant", text.GBK, simplifiedchinese.GBK, 8}, {"zh-hant", text.Big5, traditionalchinese.Big5, 8},
	{"ja", text.ShiftJIS, japanese.ShiftJIS, 8}, {"ja", text.EUCJP, japanese.EUCJP, 8}, {"ko", text.EUCKR, korean.EUCKR, 20},
	{"ru", text.KOI8R, charmap.KOI8R, 40}, {"ru", text.Windows1251, charmap.Windows1251, 60}, {"uk", text.Windows1251, charmap.Windows1251, 60},
	{"el", text.Windows1253, charmap.Windows1253, 60}, {"he", text.Windows1255, charmap.Windows1255, 40}, {"ar", text.Windows1256, charmap.Windows1256, 60},
	{"fr", text.Windows1252, charmap.Windows1252, 200}, {"de", text.Windows1252, charmap.Windows1252, 250}, {"es", text.Windows1252, charmap.Windows1252, 270},
	{"pl", text.Windows1250, charmap.Windows1250, 200}, {"cs", text.Windows1250, charmap.Windows1250, 60}, {"hu", text.Windows1250, charmap.Windows1250, 100},
	{"tr", text.Windows1254, charmap.Windows1254, 100}, {"lt", text.Windows1257, charmap.Windows1257, 100},
}

func encoded(t testing.TB, codec encoding.Encoding, s string) []byte {
	t.Helper()
	b, err := codec.NewEncoder().Bytes([]byte(s))
	must(t, err)
	return b
}

// TestDetect decodes each beginning of the prose (U9). If an encoding is detected, the decoded text must be correct,
// even for a very short beginning.
func TestDetect(t *testing.T) {
	for _, s := range samples {
		t.Run(s.language+" "+string(s.encoding), func(t *testing.T) {
			whole := []rune(prose[s.language])
			for n := 1; n <= len(whole); n += 1 + n/20 {
				want := string(whole[:n])
				data := encoded(t, s.codec, want)
				got, err := text.Decode(data)
				must(t, err)
				if got.Encoding == text.UTF8 && string(got.Content) == want { // this beginning contains only ASCII characters
					continue
				}
				if !got.Guessed() && string(got.Content) != want {
					t.Errorf("%d characters: %q is shown as %q in %s", n, want, got.Content, got.Encoding)
				}
				if n >= s.certain && (got.Guessed() || got.Encoding != s.encoding) {
					t.Errorf("%d characters are shown as %s, guessed %v", n, got.Encoding, got.Guessed())
				}
			}
		})
	}
}

// TestDetectInside decodes random parts of the prose. No part may be decoded in a wrong encoding.
func TestDetectInside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range samples {
		whole := []rune(strings.ReplaceAll(prose[s.language], "\n", " "))
		wrong := 0
		for range 100 {
			from := r.IntN(len(whole))
			part := string(whole[from:min(len(whole), from+1+r.IntN(40))])
			got, err := text.Decode(encoded(t, s.codec, part))
			must(t, err)
			if got.Encoding != text.UTF8 && !got.Guessed() && string(got.Content) != part {
				wrong++
				t.Logf("%s %s: %q is shown as %q in %s", s.language, s.encoding, part, got.Content, got.Encoding)
			}
		}
		if wrong > 0 {
			t.Errorf("%s %s: %d of 100 wrong", s.language, s.encoding, wrong)
		}
	}
}

// TestLongText checks that an encoding is detected in a very long text, also if its first characters that are not ASCII
// are far from the beginning.
func TestLongText(t *testing.T) {
	for _, s := range samples {
		long := strings.Repeat("ascii only\n", 20_000) + strings.Repeat(prose[s.language], 300)
		got, err := text.Decode(encoded(t, s.codec, long))
		must(t, err)
		if string(got.Content) != long || got.Encoding != s.encoding {
			t.Errorf("%s: shown as %s", s.language, got.Encoding)
		}
	}
}

// TestEditKeepsOtherBytes replaces parts of texts and checks that all other bytes are unchanged.
func TestEditKeepsOtherBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, s := range samples {
		for _, content := range []string{prose[s.language], strings.Repeat(prose[s.language], 40)} {
			data := encoded(t, s.codec, content)
			decoded, err := text.Decode(data)
			must(t, err)
			chars := []rune(content)
			for range 20 {
				from := r.IntN(len(chars))
				to := min(len(chars), from+r.IntN(30))
				fresh := slices.Clone(chars[:r.IntN(min(20, len(chars)))])
				got, err := decoded.Encode([]byte(string(slices.Concat(chars[:from], fresh, chars[to:]))))
				must(t, err)
				before, after := encoded(t, s.codec, string(chars[:from])), encoded(t, s.codec, string(chars[to:]))
				if !bytes.HasPrefix(data, before) || !bytes.HasSuffix(data, after) {
					t.Fatal("the encoding has a state")
				}
				if want := slices.Concat(before, encoded(t, s.codec, string(fresh)), after); !bytes.Equal(got, want) {
					t.Fatalf("%s: an edit at %d changed other bytes", s.encoding, from)
				}
			}
		}
	}
}

// TestEncodeRefusesForeignCharacters checks that each encoding refuses a character that it cannot represent.
func TestEncodeRefusesForeignCharacters(t *testing.T) {
	for _, s := range samples {
		decoded, err := text.Decode(encoded(t, s.codec, prose[s.language]))
		must(t, err)
		_, err = decoded.Encode([]byte(prose[s.language] + "🙂"))
		if kind(err) != tool.InvalidArguments || !strings.Contains(err.Error(), string(s.encoding)) || !strings.Contains(err.Error(), "🙂") {
			t.Errorf("%s: %v", s.encoding, err)
		}
	}
}

// TestGB18030 checks that a text with characters of four bytes is decoded and encoded unchanged.
func TestGB18030(t *testing.T) {
	content := prose["zh-hans"] + "㐀🙂\n"
	data := encoded(t, simplifiedchinese.GB18030, content)
	got, err := text.Decode(data)
	must(t, err)
	if got.Encoding != text.GB18030 || string(got.Content) != content {
		t.Fatalf("shown as %s", got.Encoding)
	}
	back, err := got.Encode([]byte(content + "🙃"))
	must(t, err)
	if !bytes.Equal(back, encoded(t, simplifiedchinese.GB18030, content+"🙃")) {
		t.Error("not encoded in the same way")
	}
}

func TestMixture(t *testing.T) {
	gbk := encoded(t, simplifiedchinese.GBK, prose["zh-hans"])
	for name, c := range map[string]struct {
		data []byte
		want string
		says string
	}{
		"utf-8, then gbk":      {slices.Concat([]byte(prose["zh-hans"]), gbk), prose["zh-hans"] + prose["zh-hans"], "4 lines are gbk, the first is line 5"},
		"gbk, then utf-8":      {slices.Concat(gbk, []byte(prose["ja"])), prose["zh-hans"] + prose["ja"], "the first is line 1"},
		"one latin-1 line":     {[]byte(prose["ru"] + "caf\xe9\n"), prose["ru"] + "café\n", "line 4 is not UTF-8"},
		"a character is cut":   {[]byte(prose["ja"] + "\xe3\x81"), "", "line 4 is not UTF-8"},
		"koi8-r, then utf-8":   {slices.Concat(encoded(t, charmap.KOI8R, prose["ru"]), []byte(prose["ru"])), prose["ru"] + prose["ru"], "3 lines are koi8-r"},
		"western in both ways": {slices.Concat(encoded(t, charmap.Windows1252, prose["fr"]), []byte(prose["de"]+"Größe, Übergröße, Äußerung, überflüssig, Bäckerstraße, Öltür, süß, heiß\n")), "", "2 lines are windows-1252"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := text.Decode(c.data)
			must(t, err)
			if got.Encoding != text.Several || !strings.Contains(got.Flaw(), c.says) || c.want != "" && string(got.Content) != c.want {
				t.Fatalf("%q as %s: %q", got.Flaw(), got.Encoding, got.Content)
			}
			if kind(got.Editable()) != tool.InvalidArguments {
				t.Errorf("editable: %v", got.Editable())
			}
			if _, err := got.Encode(got.Content); kind(err) != tool.InvalidArguments {
				t.Errorf("encoded: %v", err)
			}
		})
	}
}

// TestNotDetected checks texts whose encoding is not certain. They must be shown as Windows-1252, marked as a guess.
func TestNotDetected(t *testing.T) {
	for _, data := range []string{"caf\xe9", "\xc4\xe3", "x\xffy\n", "\xffneedle\xc3\nneedle \xe2\x82 x\n", "na\xefve caf\xe9 needle", "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89", "a\xa7b\xa7c\xa7d"} {
		got, err := text.Decode([]byte(data))
		must(t, err)
		if got.Encoding != text.Windows1252 || !got.Guessed() {
			t.Errorf("%q is shown as %q in %s", data, got.Content, got.Encoding)
		}
	}
}
