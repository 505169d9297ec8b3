//go:build !race

package finder

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestOracleCodeHostile searches a tree with files that the parsers cannot handle. The query must still find the
// declarations in the other files, and the notes must mention the unparsed files.
func TestOracleCodeHostile(t *testing.T) {
	h := newHost(t, "good.go=package p\n\nfunc Wanted() {}\n", "good.py=def Wanted(): pass\n")
	const deep = 3_000
	for name, ext := range map[string]string{"paren": "(", "brace": "{", "angle": "a<", "minus": "-", "tag": "<a>"} {
		for _, lang := range []string{"go", "py", "tsx", "rs", "cpp"} {
			prefix := ""
			if lang == "go" {
				prefix = "package p\nfunc Before() {}\nvar Wanted" + name + " = "
			}
			h.add(fmt.Sprintf("deep/%s.%s=%s%s Wanted", name, lang, prefix, strings.Repeat(ext, deep)))
		}
	}
	h.add("odd/binary.go=package p\x00func Wanted() {}\n")
	h.add("odd/invalid.py=def Wanted\xff\xfe(): pass\n")
	h.add("odd/unterminated.ts=const x = `Wanted ${")
	h.add("odd/unterminated.cpp=R\"(Wanted")
	h.add("odd/empty.go=")
	h.add("odd/long.js=" + strings.Repeat("var a=Wanted;", 200_000))
	h.add("odd/huge.ts=function Wanted() {}\n" + strings.Repeat("// filler filler filler filler filler filler\n", 60_000))
	hosts := h.inWays("disk", "events")
	for way, o := range hosts {
		began := time.Now()
		text, notes, d := o.code(args{"query": "Wanted", "match": "exact", "head_limit": 0})
		for _, want := range []string{"good.go:3:6 function Wanted", "good.py:1:5 function Wanted", "odd/huge.ts:1:10 function Wanted [pattern]"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not there in\n%s", way, want, text)
			}
		}
		if !strings.Contains(notes, "not parsed to the end") || d.NotParsed != 0 {
			t.Errorf("%s: after %v: %d not parsed, %s", way, time.Since(began), d.NotParsed, notes)
		}
		if d.Skipped.Binary == 0 && way == "disk" {
			t.Errorf("%s: %+v", way, d.Skipped)
		}
	}
}
