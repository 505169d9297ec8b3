package finder

import (
	"os"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestRareOptions checks the results of options of ripgrep that the definition for models omits (F5).
func TestRareOptions(t *testing.T) {
	h := newHost(t, "a.txt=one two one\ntwo\none\n", "b.TXT=three\n", "bin.dat=x\x00one\n", "sub/c.txt=one "+strings.Repeat("x", 300), "link -> sub")
	for _, tc := range []struct {
		a    args
		want string
	}{
		{args{"pattern": "one", "only_matching": true, "max_count": 1}, "a.txt:1:one\na.txt:1:one\nsub/c.txt:1:one"},
		{args{"pattern": "one", "invert_match": true}, "a.txt:2:two\nb.TXT:1:three"},
		{args{"pattern": "one", "count_matches": true}, "a.txt:3\nsub/c.txt:1"},
		{args{"pattern": "one", "files_without_match": true}, "b.TXT"},
		{args{"pattern": "three", "iglob": []string{"*.txt"}}, "b.TXT:1:three"},
		{args{"pattern": "one", "text": true, "glob": []string{"*.dat"}}, "bin.dat:1:x\x00one"},
		{args{"pattern": "one", "max_columns": 5, "path": "sub"}, "sub/c.txt:1:one x [… 299 more characters]"},
		{args{"pattern": "one", "follow": true, "glob": []string{"c.txt"}, "output_mode": "files_with_matches"}, "link/c.txt\nsub/c.txt"},
	} {
		res := h.call("grep", tc.a)
		if res.Error != nil {
			t.Errorf("%v: %v", tc.a, res.Error)
			continue
		}
		if got, _ := split(res.Output); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.a, got, tc.want)
		}
	}
	for _, a := range []args{
		{"pattern": "one", "pcre2": true}, {"pattern": "one", "invert_match": true, "only_matching": true}, {"pattern": `o\n`, "multiline": true, "invert_match": true},
		{"pattern": "one", "count_matches": true, "files_without_match": true},
	} {
		if res := h.call("grep", a); res.Error == nil || res.Error.Kind != tool.InvalidArguments {
			t.Errorf("%v: %v %s", a, res.Error, res.Output)
		}
	}
}

// TestOtherSyntax checks that a result names the syntax of its pattern if the pattern means something else in the other
// one.
func TestOtherSyntax(t *testing.T) {
	h := newHost(t, "a.txt=one\ntwo\nfoo(x)\na|b\n", "crlf.txt=win\r\n")
	for _, tc := range []struct {
		pattern, dialect, note string
	}{
		{"one|two", "bre", "In ripgrep's syntax (dialect=rust), the pattern has 2 matches"},
		{"a|b", "bre", ""}, // as many matches
		{`\p{Lu}+|o`, "bre", "the pattern has 3 matches"},
		{`one\|two`, "bre", "the pattern has 0 matches"},
		{"one", "bre", ""},
		{"foo(", "bre", ""}, // not valid in the other syntax
		{`one\|two`, "rust", "In the syntax of grep (dialect=bre), the pattern has 2 matches"},
		{`o\(n\)e`, "rust", "the pattern has 1 match"},
		{`foo\(`, "rust", ""},
		{"zzz", "rust", ""},
		{"one|two", "ere", ""},
		{"^win$", "rust", `With \r?$, the pattern has 1 match`},
		{"^one$", "rust", ""},
	} {
		res := h.call("grep", args{"pattern": tc.pattern, "dialect": tc.dialect})
		if res.Error != nil {
			t.Errorf("%v: %v", tc, res.Error)
			continue
		}
		if _, notes := split(res.Output); !strings.Contains(notes, tc.note) || tc.note == "" && strings.Contains(notes, "the pattern has") {
			t.Errorf("%s in %s: %q, wanted %q", tc.pattern, tc.dialect, notes, tc.note)
		}
	}
}

// TestFollowStaysInTheRoots checks that a link out of the roots is not followed, and that a search through a loop of
// links ends (F5).
func TestFollowStaysInTheRoots(t *testing.T) {
	out := t.TempDir()
	must(t, os.WriteFile(out+"/secret", []byte("needle"), 0o600))
	h := newHost(t, "a=needle", "d/e/=", "out -> "+out, "out.txt -> "+out+"/secret", "loop -> .", "d/e/up -> ../..", "d/self -> self")
	res := h.call("grep", args{"pattern": "needle", "follow": true, "output_mode": "files_with_matches"})
	if got, _ := split(res.Output); res.Error != nil || got != "a" {
		t.Errorf("%v %q", res.Error, res.Output)
	}
	if !strings.Contains(res.Output, "5 symbolic link") {
		t.Errorf("the links are not counted: %s", res.Output)
	}
}
