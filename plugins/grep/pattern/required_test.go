package pattern

import (
	"fmt"
	"strings"
	"testing"
)

func (r requirement) String() string {
	out := fmt.Sprintf("%q", r.text)
	if r.folded {
		out += " folded"
	}
	for _, side := range []struct {
		name string
		sets []*byteSet
	}{{"before", r.before}, {"after", r.after}} {
		if len(side.sets) == 0 {
			continue
		}
		out += " " + side.name
		for _, set := range side.sets {
			out += " "
			for b, in := range set {
				switch {
				case in && b > asciiMax:
					out += "…"
				case in:
					out += string(rune(b))
				}
				if in && b > asciiMax {
					break
				}
			}
		}
	}
	return out
}

func described(all []needle) string {
	var out []string
	for _, n := range all {
		out = append(out, n.String())
	}
	return strings.Join(out, ", ")
}

func TestRequirement(t *testing.T) {
	for expr, want := range map[string]string{
		"abc":                          `"abc"`,
		"a+bcd":                        `"bcd" before a`,
		"(abc)d":                       `"abcd"`,
		"(abc)+d":                      `"abc"`,
		"abc|b":                        "",
		"x?yz":                         `"yz"`,
		`\bfoo\b`:                      `"foo"`,
		"^foo+":                        `"fo" after o`,
		"[xy]{2}_[ab]*":                `"_" before xy xy`,
		"[xy]{3,}_[ab]+c":              `"_" before xy xy xy after ab`,
		"([xy]b|z?c)_":                 `"_" before bc`,
		"(xy|zw)__":                    `"__" before wy xz`,
		"[aé]__[bü]c":                  `"__" before a… after b…`,
		`x(?-u:[\x80\xff])__`:          `"__" before …`,
		`[ab]\b_(cd){2}_`:              `"cd"`,
		"foo.*barbaz":                  `"barbaz", "foo"`,
		"ab.*cde.*(fgh)+.*[i]xx.*bcd+": `"cde", "fgh", "ixx"`,
		"abc.*abcd.*dd.*e":             `"abcd"`,
		"aa1.*bb2.*cc3.*dd4.*ee5":      `"aa1", "bb2", "cc3", "dd4"`,
		"(a?b){2}__":                   `"__" before b`,
		"x(a|bc)__":                    `"__" before ac`,
		"(?i)k_":                       `"_" before Kk…`,
		"[a-b]_{9}[c-d]":               `"_"`,
	} {
		p, err := Compile(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := described(p.required); got != want {
			t.Errorf("%s requires %s, want %s", expr, got, want)
		}
	}
}

// TestFolded checks that a folded required text is preferred to the exact text if it is longer.
func TestFolded(t *testing.T) {
	for expr, want := range map[string][2]string{
		"(?i)foo1":        {`"foo1" folded`, ""},
		"(?i)aa1.*BBB2":   {`"bbb2" folded`, ""},
		"(?i)foo1x[ab]+":  {`"foo1x" folded after ABab`, `"foo1x" folded after ABab`},
		"(?i)serve":       {`"erve" folded before Ss…`, ""},
		"(?i:ab)CDEFxyz1": {`"abcdefxyz1" folded`, `"abcdefxyz1" folded`},
		"(?i:a)BCDé":      {`"BCDé" before Aa`, `"abcd" folded after …`},
		"(?i)[xé]y":       {`""`, ""},
		"(?i)é12":         {`"12" before …`, ""},
		"[fF]oo(?i)bar?":  {`"fooba" folded`, ""},
	} {
		tree, err := parse(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := requirementsOf(tree, true)
		if expr == "(?i)aa1.*BBB2" && (len(got) != 2 || got[1].String() != `"aa1" folded`) {
			t.Errorf("%s requires %v", expr, got)
		}
		if len(got) == 0 {
			got = []requirement{{}}
		}
		if got[0].String() != want[0] {
			t.Errorf("%s requires %s, want %s", expr, got[0], want[0])
		}
		if got := prefixOf(tree, true).String(); want[1] != "" && got != want[1] {
			t.Errorf("%s begins with %s, want %s", expr, got, want[1])
		}
	}
}

// TestPatience checks that the bytes around a required text are checked only if these checks save time.
func TestPatience(t *testing.T) {
	p, err := Compile("[a-z]_[0-9]x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for places, want := range map[int][2]int{0: {0, 0}, 2: {2, 2}, 9: {5, 3}} {
		if at, wrong := p.required[0].index([]byte("_____"[:3]+"ab_1x"), places); at != want[0] || wrong != want[1] {
			t.Errorf("%d places: at %d after %d wrong ones, want %v", places, at, wrong, want)
		}
	}
	m := p.Matcher(t.Context())
	most := m.patience.Places()
	for _, c := range []struct {
		line   string
		lines  int
		places func(left int) bool
	}{
		{strings.Repeat("_", 79) + "\n", 200, func(left int) bool { return left <= 5 }},
		{strings.Repeat(" ", 78) + "_\n", 200, func(left int) bool { return left == most }},
	} {
		text := []byte(strings.Repeat(c.line, c.lines) + "a_1x\n")
		start, end, ok, err := m.NextLine(text, 0)
		if err != nil || !ok || end != len(text) || start != len(text)-5 {
			t.Fatalf("%d–%d %v %v", start, end, ok, err)
		}
		if left := m.patience.Places(); !c.places(left) {
			t.Errorf("%d of %d places may be looked at after %q", left, most, c.line)
		}
	}
}

func TestPrefix(t *testing.T) {
	for expr, want := range map[string]string{
		"abc": `"abc"`, "ab.": `""`, `^\babc[xy]+longer`: `"abc" after xy`, "abc?": `""`, "abcd?": `"abc"`, "a{3}b": `""`, "abc|abd": `""`, "(abc)(d)$x": `"abcdx"`,
		"[a]bc": `"abc"`, "x?abc": `""`,
	} {
		p, err := Compile(expr, Options{Multiline: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.prefix.String(); got != want {
			t.Errorf("%s begins with %s, want %s", expr, got, want)
		}
	}
}

// TestSkip checks that conditions of a pattern can test text that the machine has skipped.
func TestSkip(t *testing.T) {
	p, err := Compile(`\babc\s+d`, Options{Multiline: true})
	if err != nil {
		t.Fatal(err)
	}
	m := p.Matcher(t.Context())
	text := []byte("-- xabc d -- xabc\nd -- abc\nx abc\nd")
	if start, end, ok, err := m.Find(text, 0); err != nil || !ok || string(text[start:end]) != "abc\nd" || end != len(text) {
		t.Errorf("%d–%d %v %v", start, end, ok, err)
	}
	if p, err = Compile(`\babc +d`, Options{}); err != nil {
		t.Fatal(err)
	}
	if start, end, ok, err := p.Matcher(t.Context()).NextLine([]byte("-- xabc - xabc d"), 0); ok || err != nil {
		t.Errorf("%d–%d %v", start, end, err)
	}
}
