package ignore

import (
	"os"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		rules string
		paths string // a sign and a path for each case: - means ignored, + means included, = means no rule
	}{
		{"*.log", "-a.log -x/a.log =log -.log/"},
		{"a", "-a -x/a -a/ =ab"},
		{"/a", "-a =x/a"},
		{"a/", "=a -a/ -x/a/"},
		{"a/b", "-a/b =x/a/b"},
		{"a/**", "-a/b -a/b/c =a/"},
		{"**/a", "-a -x/a -x/y/a"},
		{"a/**/b", "-a/b -a/x/b -a/x/y/b =ab"},
		{"*\n!a", "-b +a -x/b +x/a"},
		{"!a\na", "-a"},
		{"#a\n\\#b\n\\!c", "=#a =a -#b -!c"},
		{"a  \nb\\ ", "-a =b"},
		{"\uFEFFa\r\nb\r\n", "-a -b"},
		{"{a,b}.x", "-a.x -b.x =c.x"},
		{"[", "-["},
		{"a\n\xff\nb", "-a =b"},
		{"\n\n  \n", "=a"},
		{"a\\/", "-a/ =a"},
		{"*.log\n!", "-a.log"},
		{"*.log\n!  \n/\n!/\n//", "-a.log =a -x/a.log"},
		{"*.x\n!k.x\n/d/*.x", "-a.x +k.x -d/k.x"},
	} {
		r := Parse(tc.rules)
		for p := range strings.FieldsSeq(tc.paths) {
			want := map[byte]Verdict{'-': Ignore, '+': Include, '=': None}[p[0]]
			path, isDir := strings.CutSuffix(p[1:], "/")
			if got := r.Match(path, isDir); got != want {
				t.Errorf("%q on %s: %d, want %d", tc.rules, p[1:], got, want)
			}
		}
	}
}

// files is a Source for tests that maps the names of ignore files to their contents.
type files map[string]string

func (f files) Rules(name string) *Rules { return Parse(f[name]) }
func (f files) Exclude() *Rules          { return Parse(f["exclude"]) }

func TestDirs(t *testing.T) {
	top := NewDir(nil, "/w", Content{Git: true, Plain: true, Repository: true}, files{GitFile: "*.log\n/top\ndeep/x", PlainFile: "p\n!q", "exclude": "e\nq"})
	sub := NewDir(top, "/w/sub", Content{Git: true, Ripgrep: true}, files{GitFile: "!keep.log\nown", RipgrepFile: "!p\nr"})
	nested := NewDir(sub, "/w/sub/repo", Content{Repository: true}, files{})
	for _, tc := range []struct {
		dir  *Dir
		path string
		want Verdict
	}{
		{top, "/w/a.log", Ignore}, {top, "/w/top", Ignore}, {top, "/w/e", Ignore}, {top, "/w/p", Ignore}, {top, "/w/a", None},
		{sub, "/w/sub/top", None}, {sub, "/w/sub/keep.log", Include}, {sub, "/w/sub/b.log", Ignore}, {sub, "/w/sub/own", Ignore},
		{sub, "/w/sub/p", Include}, // .rgignore is stronger than .ignore
		{sub, "/w/sub/q", Include}, // .ignore is stronger than the exclude file
		{nested, "/w/sub/repo/b.log", None}, {nested, "/w/sub/repo/r", Ignore}, {nested, "/w/sub/repo/p", Include},
	} {
		if got := tc.dir.Match(tc.path, false); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.path, got, tc.want)
		}
	}
	inert := NewDir(nil, "/v", Content{Git: true, Plain: true}, files{GitFile: "*", PlainFile: "a"})
	if inert.InRepository() || inert.Match("/v/b", false) != None || inert.Match("/v/a", false) != Ignore {
		t.Error("rules of git apply outside a repository, or others do not")
	}
	if d := NewDir(top, "/w/none", Content{}, files{}); d != top {
		t.Error("a directory without rules of its own has a new one")
	}
	root := NewDir(nil, "/", Content{Plain: true}, files{PlainFile: "/etc"})
	if root.Match("/etc", true) != Ignore {
		t.Error("rules of / do not apply")
	}
}

func TestGlobs(t *testing.T) {
	for _, tc := range []struct {
		globs string
		paths string
	}{
		{"*.go", "+a.go +x/a.go -a.ts =x/"}, {"!*.go", "-a.go =a.ts =x/"}, {"*.go !a.go", "-a.go +b.go -c.ts"}, {"src/*.go", "+src/a.go -x/src/a.go -a.go"}, {"/a", "+a -x/a"}, {"src", "+src/ -src/a"}, {"src/**", "+src/a =src/ +src/x/"},
	} {
		g, err := NewGlobs(strings.Fields(tc.globs), nil)
		if err != nil {
			t.Fatal(err)
		}
		for p := range strings.FieldsSeq(tc.paths) {
			want := map[byte]Verdict{'-': Ignore, '+': Include, '=': None}[p[0]]
			path, isDir := strings.CutSuffix(p[1:], "/")
			if got := g.Match(path, isDir); got != want {
				t.Errorf("%q on %s: %d, want %d", tc.globs, p[1:], got, want)
			}
		}
	}
	if _, err := NewGlobs([]string{"*.go", "[a"}, nil); err == nil || !strings.Contains(err.Error(), `"[a"`) {
		t.Errorf("error %v", err)
	}
	if g, err := NewGlobs([]string{"", "#x"}, nil); g != nil || err != nil || g.Match("a", false) != None {
		t.Errorf("globs of nothing: %v, %v", g, err)
	}
}

func TestGlobalPath(t *testing.T) {
	for _, tc := range []struct {
		env   map[string]string
		files map[string]string
		want  string
	}{
		{map[string]string{"HOME": "/h"}, nil, "/h/.config/git/ignore"},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, nil, "/x/git/ignore"},
		{map[string]string{"HOME": "/h"}, map[string]string{"/h/.gitconfig": "[core]\n\tExcludesFile = ~/mine\n"}, "/h/mine"},
		{map[string]string{"HOME": "/h"}, map[string]string{"/h/.config/git/config": "[core]\nexcludesfile=\"/etc/x\"\n", "/h/.gitconfig": "[user]\n"}, "/etc/x"},
		{nil, nil, ""},
	} {
		got := GlobalPath(func(k string) string { return tc.env[k] }, func(p string) ([]byte, error) {
			if c, ok := tc.files[p]; ok {
				return []byte(c), nil
			}
			return nil, os.ErrNotExist
		})
		if got != tc.want {
			t.Errorf("%v %v: %q, want %q", tc.env, tc.files, got, tc.want)
		}
	}
}

func TestGlobal(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	if Global() != nil {
		t.Error("rules without a file")
	}
	if err := os.MkdirAll(home+"/git", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/git/ignore", []byte("*.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if Global().Match("x/a.log", false) != Ignore {
		t.Error("the file's rules do not apply")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a/**/b\n!{x,y}[!z]\n", "a/x/b")
	f.Fuzz(func(t *testing.T, rules, path string) { Parse(rules).Match(path, false) })
}
