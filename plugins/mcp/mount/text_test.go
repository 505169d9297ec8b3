package mount

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"plain\n\ttext", "plain\n\ttext"},
		{"\x1b[1;31mred\x1b[0m", "red"},
		{"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x07", "link"},
		{"\x1b]0;title", ""},
		{"\u009b31mred", "red"},
		{"\x1bcreset\x1b(B", "reset"},
		{"a\u202eb\u2066c\u200ed", "abcd"},
		{"say\U000E0041\U000E0042\U000E0001", "say"},
		{"x\u200by\ufeffz\u00ad", "xyz"},
		{"v\U000E0101w", "vw"},
		{"bell\a\x00\r\x7f", "bell"},
		{"👩\u200d🔬 \u0645\u200c\u0645", "👩\u200d🔬 \u0645\u200c\u0645"},
		{"\xff\xfe", "\uFFFD"},
		{strings.Repeat("é", 20), strings.Repeat("é", 13) + "…"},
	} {
		if got := clean(tc.in, 30); got != tc.want {
			t.Errorf("clean(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestCleanSchema(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{"type":"object","properties":{"z":{"type":"string"},"a":{}},"required":["z"]}`, `{"type":"object","properties":{"z":{"type":"string"},"a":{}},"required":["z"]}`},
		{`{"description":"a\u001b[1mb","properties":{"description":{"description":"x\u202ey"},"default":{"title":"p\u200bq"}}}`, `{"description":"ab","properties":{"description":{"description":"xy"},"default":{"title":"pq"}}}`},
		{`{"default":{"title":"a\u200bb"},"enum":["c\u200bd"],"const":1}`, `{"default":{"title":"a\u200bb"},"enum":["c\u200bd"],"const":1}`},
		{`{"anyOf":[{"$comment":"a\u200bb"},true,null]}`, `{"anyOf":[{"$comment":"ab"},true,null]}`},
		{`[]`, `[]`},
		{`null`, `null`},
		{`12345678901234567890`, `12345678901234567890`},
	} {
		got, err := cleanSchema(rawJSON(tc.in))
		if err != nil || string(got) != tc.want {
			t.Errorf("cleanSchema(%s) = %s, %v, want %s", tc.in, got, err, tc.want)
		}
	}
	if _, err := cleanSchema(strings.Repeat("x", maxSchema)); err == nil {
		t.Error("a large schema is taken")
	}
}
