package definition

import (
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/symbol"
)

func TestAround(t *testing.T) {
	for _, text := range []string{"a", "a\n", "a\nb", "a\n\nc\r\nd", "\n\nc\n", "a\nb\nc\nd\ne\n", "\xff\n" + strings.Repeat("x", 3000) + "\n"} {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for i, l := range lines {
			lines[i] = strings.ToValidUTF8(l[:min(len(l), 2000)], "\uFFFD")
			lines[i] = strings.TrimSuffix(lines[i], "\r")
		}
		at := 0
		for i, raw := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			for offset := at; offset <= at+len(raw); offset += max(1, len(raw)) { // test the beginning and the end of the line
				for n := range 4 {
					code, context := around([]byte(text), symbol.Symbol{Offset: int32(offset)}, n) // #nosec G115 -- a small number
					want := strings.Join(lines[max(0, i-n):min(len(lines), i+n+1)], "\n")
					if n == 0 {
						want = ""
					}
					if code != lines[i] || context != want {
						t.Errorf("%.20q, line %d, context %d: %.40q and %.40q, want %.40q and %.40q", text, i+1, n, code, context, lines[i], want)
					}
				}
			}
			at += len(raw) + 1
		}
	}
}
