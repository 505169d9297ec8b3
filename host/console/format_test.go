package console

import "testing"

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[1;31mred\x1b[0m b":                          "ared b",
		"\x1b]0;title\x07text":                             "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ end":     "link end",
		"\u009b31mred\u009d0;t\u009c.":                     "red.",
		"\x1bPq#0\x1b\\\x1b_apc\x07\x1b(B\x1b=\x1bc end":   " end",
		"\x1b]0;the rest of the text must not vanish":      "‹U+001B›]0;the rest of the text must not vanish",
		"\x1b]0;a\x1b[2Jb":                                 "‹U+001B›]0;ab",
		"\x1b[12":                                          "‹U+001B›[12",
		"\x1b":                                             "‹U+001B›",
		"a\u202eb\x00c\td\ne\r\n":                          "a‹U+202E›b‹U+0000›c\td\ne\n",
		"family \U0001f468\u200d\U0001f469 and \xff bytes": "family \U0001f468\u200d\U0001f469 and \ufffd bytes",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
