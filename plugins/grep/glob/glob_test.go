package glob

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		glob string
		yes  string // matching paths, separated by spaces
		no   string
	}{
		{"a", "a", "b a/a aa"},
		{"*", "a abc .a", "a/b"},
		{"?", "a", "ab / é"},
		{"??", "ab é", "a"},
		{"*.go", "a.go .go", "a/b.go a.goo"},
		{"**/*.go", "a.go x/a.go x/y/a.go .go", "a.gox go"},
		{"**/go", "go a/go a/b/go", "ago a/ago go/a"},
		{"**", "a a/b .", ""},
		{"**/", "a a/b", ""},
		{"a/**", "a/b a/b/c a/", "a b/a"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/bb xa/b"},
		{"**/a/**", "a/b x/a/b x/y/a/b/c", "a x/a"},
		{"a**b", "ab axb axxb", "a/b ax/b"},
		{"a**", "a ab", "a/b"},
		{"**a", "a ba", "b/a"},
		{"**/**/a", "a b/a", ""},
		{"a/**/**/b", "a/b a/x/b", ""},
		{"{a,b}", "a b", "c ab"},
		{"{a,b}/*.{c,d}", "a/x.c b/x.d", "a/x.e c/x.c"},
		{"x{a,{b,c}}y", "xay xby xcy", "xy x"},
		{"x{,a}", "xa", "x"},
		{"x{,}", "x", "xx"},
		{"{**/a,b}", "a x/a b", "x/b"},
		{"a/{b,**}", "a/b a/c", "a"},
		{"[ab]", "a b", "c ab"},
		{"[!ab]", "c /", "a b"},
		{"[^ab]", "c", "a b"},
		{"[]a]", "] a", "b"},
		{"[!]]", "a", "]"},
		{"[a-c]x", "ax bx cx", "dx"},
		{"[a-]", "a -", "b"},
		{"[-a]", "a -", "b"},
		{"[a--]", "", ""}, // invalid, because the range is reversed: see TestParseErrors
		{"[\\]a]", "\\a]", "a \\"},
		{"\\*", "*", "a"},
		{"\\{a", "{a", "a"},
		{"a,b", "a,b", "a b"},
		{"é*", "é éa", "e"},
	} {
		g, err := Parse(tc.glob, Options{})
		if err != nil {
			if tc.yes != "" || tc.no != "" {
				t.Errorf("%s: %v", tc.glob, err)
			}
			continue
		}
		for p := range strings.FieldsSeq(tc.yes) {
			if !g.Match(p) {
				t.Errorf("%q should match %q", tc.glob, p)
			}
		}
		for p := range strings.FieldsSeq(tc.no) {
			if g.Match(p) {
				t.Errorf("%q should not match %q", tc.glob, p)
			}
		}
	}
}

func TestShell(t *testing.T) {
	for _, tc := range []struct {
		glob, path  string
		shell, rule bool
	}{
		{"a{,b}", "a", true, false}, {"a{,b}", "ab", true, true}, {"a/**", "a", false, false}, {"a/**", "a/b/c", true, true},
		{"a[!b]c", "a/c", false, true}, {"a[!b]c", "axc", true, true}, {"*.{go,}", "x.", true, false},
	} {
		for _, shell := range []bool{true, false} {
			g, err := Parse(tc.glob, Options{Shell: shell})
			if err != nil {
				t.Fatal(err)
			}
			want := tc.rule
			if shell {
				want = tc.shell
			}
			if got := g.Match(tc.path); got != want {
				t.Errorf("%s matches %s with shell %v: %v", tc.glob, tc.path, shell, got)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for glob, want := range map[string]string{
		"a{b": "has no matching }", "a}b": "has no matching {", "[a": "has no matching ]", "a\\": "backslash",
		"[z-a]": "reversed", "[a--]": "reversed", strings.Repeat("?", 5000): "too long",
	} {
		_, err := Parse(glob, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: error %v, want %q in it", glob, err, want)
		}
	}
}

func TestLiteralBracket(t *testing.T) {
	g, err := Parse("[a*[", Options{LiteralBracket: true})
	if err != nil || !g.Match("[abc[") || g.Match("a") {
		t.Errorf("an unclosed bracket should be itself: %v", err)
	}
}

// TestFastKinds checks that a glob has the expected kind. It also checks that the fast match returns the same result
// as the compiled program.
func TestFastKinds(t *testing.T) {
	paths := []string{"a", "a.go", ".go", "x/a.go", "x/y.a.go", "go", "x/a", "a/x", "a.go/x", "x.go.a", ".a.go", "x/.a.go", "_a", "b/c_a", "xa/b"}
	for text, want := range map[string]kind{
		"a": literal, "x/a.go": literal, "**/a": basename, "**/a.go": basename,
		"**/*.go": extension, "**/*.a.go": ending, "**/*_a": ending, "**/*a/b": general, "**/a*": general, "**/a*.go": general, "**/x.?o.*": general, "x/*": general, "*/a*x": general, "**/*": general, "*.go": general, "**/a/b": general,
	} {
		g, err := Parse(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if g.kind != want {
			t.Errorf("%s is of kind %d, want %d", text, g.kind, want)
		}
		p := parser{src: []rune(text), branches: []tokens{nil}}
		toks, err := p.parse()
		if err != nil {
			t.Fatal(err)
		}
		prog := compile(toks, false)
		prog.close()
		for _, path := range paths {
			if g.Match(path) != prog.match(path) {
				t.Errorf("%s on %s: the shortcut says %v", text, path, g.Match(path))
			}
		}
	}
}

// TestHostile checks a glob for which a matcher with backtracking would never end.
func TestHostile(t *testing.T) {
	g, err := Parse(strings.Repeat("*a", 200)+"b", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Match(strings.Repeat("a", 4000)) {
		t.Error("matched")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("**/{a,b}*[!c]", "x/abd")
	f.Fuzz(func(t *testing.T, text, path string) {
		if g, err := Parse(text, Options{LiteralBracket: true}); err == nil {
			g.Match(path)
		}
	})
}
