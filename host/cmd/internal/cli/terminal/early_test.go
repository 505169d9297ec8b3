package terminal

import (
	"strings"
	"testing"
)

// TestEarly checks that the beginning of a running command's output is passed on in complete lines, and that it and the
// rest are the text of the result.
func TestEarly(t *testing.T) {
	long := strings.Repeat("0123456789\n", 2000)
	for name, c := range map[string]struct {
		chunks     []string
		text, want string
	}{
		"lines":                  {[]string{"a\n", "b\n"}, "a\nb\nc\n", "a\nb\n"},
		"parts of lines":         {[]string{"a", "b\nc", "d"}, "ab\ncd", "ab\n"},
		"a long line":            {[]string{"a\n" + long[:11] + strings.Repeat("x", maxEarly)}, "a\n", "a\n" + long[:11]},
		"much":                   {[]string{long, long}, long + long, long[:maxEarly/11*11]},
		"skipped output":         {[]string{"a\n", skipped + "7 bytes skipped in the live view …]\nb\n", "c\n"}, "a\n1\n2\n3\nb\nc\n", "a\n"},
		"skipped at once":        {[]string{skipped + "7 bytes skipped in the live view …]\nb\n"}, "a\nb\n", ""},
		"lines that overwrite":   {[]string{"a\n1 %\r2 %\nb\n"}, "a\n2 %\nb\n", "a\n"},
		"colours":                {[]string{"a\n\x1b[31mb\n"}, "a\nb\n", "a\n"},
		"bytes that are no text": {[]string{"a\n\xff\n"}, "a\n\ufffd\n", "a\n"},
	} {
		var e early
		var got strings.Builder
		for _, chunk := range c.chunks {
			got.Write(e.add([]byte(chunk)))
		}
		if got.String() != c.want {
			t.Errorf("%s: %.100q is printed early, want %.100q", name, got.String(), c.want)
		}
		if whole := got.String() + e.rest(c.text); strings.HasPrefix(c.text, c.want) && whole != c.text {
			t.Errorf("%s: %.100q is printed in all, want %.100q", name, whole, c.text)
		}
	}
}
