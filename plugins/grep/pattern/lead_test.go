package pattern

import (
	"strings"
	"testing"
)

// TestLead checks that the search uses the rarest required text first. It also checks that lines are checked for the
// other texts only if such checks often reject lines.
func TestLead(t *testing.T) {
	const expr = `^export function \w+Cache\w+`
	for name, c := range map[string]struct {
		lines  []string
		leads  string
		asking bool // true if lines are still checked for the other texts at the end
		found  int
	}{
		"the longest is in every line": {[]string{"export function getUser()", "export function aCacheX()", "export function list()", "export function other()"}, "Cache", false, 1},
		"the longest is rare":          {[]string{"a.userCache.get()", "b.userCacheX()", "c(Cache)", "export function aCacheX()"}, "export function ", false, 1},
		"neither helps":                {[]string{"export function aCacheX()"}, "export function ", false, 1},
		"the others are often missing": {[]string{"export function list()", "b.userCacheX()", "x.theCacheY", "export function aCacheX()", "export function other()", "export function third()"}, "Cache", true, 1},
	} {
		p, err := Compile(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := p.Matcher(t.Context())
		const times = 3000
		text := []byte(strings.Repeat(strings.Join(c.lines, "\n")+"\n", times))
		found := 0
		for pos := 0; ; found++ {
			_, end, ok, err := m.NextLine(text, pos)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			pos = end
		}
		if want := c.found * times; found != want {
			t.Errorf("%s: %d lines, want %d", name, found, want)
		}
		if got := string(p.required[m.leading].text); got != c.leads {
			t.Errorf("%s: looked for %q", name, got)
		}
		if asking := m.looked > lookFirst; asking != c.asking {
			t.Errorf("%s: the others were looked for in %d lines, of which %d lacked one", name, m.looked, m.lacking)
		}
		if m.learnt != learnFrom {
			t.Errorf("%s: %d bytes were learnt from", name, m.learnt)
		}
	}
}

// TestLineLacksOne checks that a line without one of the required texts is rejected. It tests each required text
// except the rarest.
func TestLineLacksOne(t *testing.T) {
	p, err := Compile("alpha.*beta.*gam", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for leading := range p.required {
		for line, want := range map[string]bool{"alpha beta gam": true, "gam beta alpha": true, "alpha beta": false, "alpha gam": false, "beta gam": false} {
			if !strings.Contains(line, string(p.required[leading].text)) {
				continue
			}
			l := lead{leading: leading}
			if got := l.has(p.required, []byte(line)); got != want || l.looked != 1 || l.lacking == 1 == want {
				t.Errorf("%q, found by text %d: %v, %+v", line, leading, got, l)
			}
		}
	}
}
