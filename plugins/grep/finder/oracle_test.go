//go:build oracle && !race

package finder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/internal/peer"
)

// flags converts the arguments of a call to the command line of ripgrep.
func flags(a args) []string {
	out := []string{"--no-config", "--no-heading", "--color=never", "-H", "--sort", "path"}
	mode := "content"
	numbers := true
	for k, v := range a {
		switch k {
		case "output_mode":
			mode = v.(string)
		case "line_numbers":
			numbers = v.(bool)
		case "ignore_case":
			out = append(out, "-i")
		case "glob":
			for _, g := range v.([]string) {
				out = append(out, "-g", g)
			}
		case "type":
			out = append(out, "-t", v.(string))
		case "after":
			out = append(out, "-A", fmt.Sprint(v))
		case "before":
			out = append(out, "-B", fmt.Sprint(v))
		case "context":
			out = append(out, "-C", fmt.Sprint(v))
		case "multiline":
			out = append(out, "-U")
		case "hidden":
			out = append(out, "--hidden")
		case "no_ignore":
			out = append(out, "--no-ignore")
		case "dialect":
			out = append(out, "-F")
		case "max_count":
			out = append(out, "-m", fmt.Sprint(v))
		case "iglob":
			for _, g := range v.([]string) {
				out = append(out, "--iglob", g)
			}
		case "only_matching", "invert_match", "follow", "text", "count_matches", "files_without_match":
			out = append(out, "--"+strings.ReplaceAll(k, "_", "-"))
		}
	}
	switch {
	case a["count_matches"] != nil, a["files_without_match"] != nil:
		mode = ""
	}
	switch mode {
	case "":
	case "files_with_matches":
		out = append(out, "-l")
	case "count":
		out = append(out, "-c")
	default:
		if numbers {
			out = append(out, "-n")
		} else {
			out = append(out, "-N")
		}
	}
	out = append(out, "-e", a["pattern"].(string))
	if p, ok := a["path"].(string); ok {
		return append(out, "--", p)
	}
	return append(out, "./")
}

var binaryMessage = regexp.MustCompile(`(?m)^.*: (WARNING: stopped searching binary file after match|binary file matches) \(found .*\)\n`)

// same compares the result of a call with the result of ripgrep.
func (h *host) same(rg, name string, a args) {
	h.t.Helper()
	same(h.t, rg, name, a, map[string]*host{"": h})
}

// same makes the call on each host and compares the results with the result of ripgrep.
func same(t testing.TB, rg, name string, a args, hosts map[string]*host) {
	t.Helper()
	a["head_limit"] = 0
	want, status, ran := "", 0, false
	for way, h := range hosts {
		if !ran {
			want, status = peer.Run(t, h.cwd, rg, flags(a)...)
			want = binaryMessage.ReplaceAllString(want, "")
			want = lineStart.ReplaceAllString(want, "")
			want = string([]rune(strings.TrimSuffix(want, "\n"))) // replace bytes that are not UTF-8, because this test does not compare them
			// After the last line of a binary file, ripgrep prints a superfluous separator.
			want = strings.TrimSuffix(want, "\n--")
			ran = true
		}
		res := h.call("grep", a)
		if res.Error != nil {
			if status != 2 {
				t.Errorf("%s %s %v: %v, want exit status %d and\n%.500s", name, way, a, res.Error, status, want)
			}
			continue
		}
		if _, ok := ways[way]; ok && way != "disk" && a["path"] == nil && indexable(a) && res.Metadata["index"] != index.Ready {
			t.Errorf("%s %s %v: the index is %v", name, way, a, res.Metadata["index"])
		}
		got, _ := split(res.Output)
		got = string([]rune(got))
		if squeeze(got) != squeeze(want) {
			t.Errorf("%s %s %v: got\n%.800s\nwant\n%.800s", name, way, a, got, want)
		}
	}
}

// indexable reports whether an index answers the call.
func indexable(a args) bool {
	return a["invert_match"] == nil && a["follow"] == nil && a["text"] == nil && a["files_without_match"] == nil
}

// squeeze replaces each sequence of U+FFFD by a single U+FFFD.
func squeeze(s string) string { return replaced.ReplaceAllString(s, "\uFFFD") }

var (
	replaced  = regexp.MustCompile("\uFFFD+")
	lineStart = regexp.MustCompile(`(?m)^\./`)
)

// trees contains the trees in which the cases are compared.
var trees = map[string][]string{
	"ignored": {
		".git/HEAD=x", ".git/info/exclude=excluded.txt\n", ".gitignore=*.log\n/build\nnode_modules/\n!keep.log\n{x,y}.tmp\n", "a.log=needle", "keep.log=needle", "build/a.txt=needle", "src/build/a.txt=needle",
		"src/.gitignore=local.txt\n!b.log\n", "src/local.txt=needle", "src/b.log=needle", "src/c.log=needle", "node_modules/m/i.js=needle", "node_modules_not/i.js=needle", "x.tmp=needle", "z.tmp=needle",
		"excluded.txt=needle", "src/excluded.txt=needle", ".ignore=plain.txt\n", "plain.txt=needle", "src/plain.txt=needle", ".rgignore=!plain.txt\nrg.txt\n", "rg.txt=needle", "a.txt=needle\nhaystack\nNeedle",
		"sub/.git/HEAD=x", "sub/d.log=needle", "sub/node_modules/x=needle", "sub/.gitignore=own.txt", "sub/own.txt=needle", "sub/deep/own.txt=needle",
		".hidden=needle", ".config/x=needle", "src/.env=needle",
	},
	"inert": {".gitignore=*.log\n", "a.log=needle", "sub/.gitignore=x.txt\n", "sub/x.txt=needle", ".ignore=b.txt", "b.txt=needle", "c/.git=gitdir: /nowhere", "c/.gitignore=x", "c/x=needle", "c/y=needle"},
	"odd rules": {
		".git/HEAD=x", ".gitignore=\uFEFFfirst.txt\n#comment\n\\#hash\n\\!bang\nspaces   \nescaped\\ \n[ab].x\n[!a-c]z\nfoo/**\n**/bar\nq/**/r\n*.y\n!important.y\n/anchored\nmid/dle\ntrail/\nx\\*y\n[\nemb{1,2}\n**.w\n",
		"first.txt=needle", "#hash=needle", "!bang=needle", "spaces=needle", "escaped =needle", "a.x=needle", "c.x=needle", "dz=needle", "az=needle", "foo/a=needle", "foo/b/c=needle", "p/bar/x=needle", "q/r/x=needle",
		"q/1/2/r/x=needle", "important.y=needle", "o.y=needle", "anchored/x=needle", "n/anchored/x=needle", "mid/dle/x=needle", "n/mid/dle/x=needle", "trail/x=needle", "n/trail=needle", "x*y=needle", "xzy=needle", "emb1=needle", "emb3=needle", "d/a.w=needle",
	},
	"texts": {
		"plain.txt=one\ntwo needle\nthree\nfour\nfive needle needle\nsix\nseven\neight\nnine\nten needle", "crlf.txt=one\r\nneedle\r\nthree\r\n", "empty.txt=", "nobreak.txt=needle", "blank.txt=\n\n\nneedle\n\n\n",
		"utf8bom.txt=\xEF\xBB\xBFneedle at start\nneedle", "utf16le.txt=\xFF\xFEn\x00e\x00e\x00d\x00l\x00e\x00\n\x00\xe9\x00\n\x00", "utf16be.txt=\xFE\xFF\x00n\x00e\x00e\x00d\x00l\x00e\x00\n\x20\xac",
		"latin1.txt=caf\xe9 needle\nna\xefve", "badutf8.txt=\xff\xfeneedle\xc3\nneedle \xe2\x82 x\n", "binary.dat=needle\n\x00\nneedle\n", "binstart.dat=\x00needle", "binlate.dat=needle early\n" + long + "\x00\nneedle late\n", "binearly.dat=" + strings.Repeat("x\n", 20) + "needle\n\x00needle\n",
		"biglate.txt=" + long + "needle\n" + long + "needle\n", "unicode.txt=\u00e9t\u00e9 needle\n\u65e5\u672c\u8a9e\nNEEDLE \u212a k \u017f\n", "multi.txt=start {\n  body needle\n}\nstart { x }\nend\nstart {\n}\n\n\n", "spaces.txt=needle  \n\tneedle\n", "longline.txt=" + strings.Repeat("ab ", 100) + "needle\n",
	},
	"links": {
		"real/a.go=needle", "real/b.TXT=needle needle\nother", "to_dir -> real", "to_file -> real/a.go", "real/up -> ..", "nowhere -> gone", "sub/c.Go=NEEDLE\n\nneedle", "sub/again -> ../to_dir",
	},
	"adjacent": {
		"a.txt=line 2\nline 3\nline 2\nline 3\nneedle\nline 2\nline 3\n", "b.txt=xa\nbxa\nbxa\nb\nneedle needle\nxa\nb", "c.txt=line 2\nline 3\n\nline 2\nline 3",
	},
	"names": {
		"a.go=needle", "a/b.go=needle", "a-b.go=needle", "a/b/c.go=needle", "A.go=needle", "b.ts=needle", "b.tsx=needle", "dir.js/x.js=needle", "dir.js/y.md=needle", "Makefile=needle", "README.md=needle", "x y.txt=needle", "\u00e9.txt=needle", "src/main.rs=needle", "src/lib/mod.rs=needle", "src/lib/mod_test.go=needle", "vendor/v.go=needle",
		".hid/a.go=needle", ".bashrc=needle", "z.sh=needle", "link.go -> a.go", "dlink -> a", "broken -> nowhere", "Dockerfile=needle", "q.h=needle", "t.test.ts=needle", "[x].go=needle",
	},
}

// rareCases contains calls with options that the definition for models omits (F5).
var rareCases = []args{
	{"pattern": "needle", "only_matching": true}, {"pattern": `n\w*`, "only_matching": true, "ignore_case": true}, {"pattern": "x*", "only_matching": true}, {"pattern": "e", "only_matching": true, "max_count": 2}, {"pattern": "^", "only_matching": true}, {"pattern": "e|é", "only_matching": true, "line_numbers": false},
	{"pattern": "needle", "invert_match": true}, {"pattern": "^$", "invert_match": true}, {"pattern": "needle", "invert_match": true, "output_mode": "count"}, {"pattern": "needle", "invert_match": true, "output_mode": "files_with_matches"}, {"pattern": "e", "invert_match": true, "context": 1}, {"pattern": "", "invert_match": true}, {"pattern": "needle", "invert_match": true, "max_count": 2},
	{"pattern": "e", "max_count": 1}, {"pattern": "needle", "max_count": 1, "output_mode": "count"}, {"pattern": "e", "max_count": 2, "before": 1}, {"pattern": "needle", "max_count": 1, "output_mode": "files_with_matches"},
	{"pattern": `line 2\nline 3`, "multiline": true, "max_count": 1}, {"pattern": `line 2\nline 3`, "multiline": true, "max_count": 2, "after": 1}, {"pattern": `line 2\nline 3`, "multiline": true, "max_count": 1, "output_mode": "count"},
	{"pattern": `xa\nb`, "multiline": true, "max_count": 1}, {"pattern": `xa\nb`, "multiline": true, "max_count": 2}, {"pattern": `xa\nb`, "multiline": true, "max_count": 3, "context": 1}, {"pattern": `xa\nb`, "multiline": true, "max_count": 2, "count_matches": true}, {"pattern": `e|\nx`, "multiline": true, "max_count": 2},
	{"pattern": "needle", "count_matches": true}, {"pattern": "x*", "count_matches": true}, {"pattern": `\w`, "count_matches": true, "max_count": 1}, {"pattern": "e", "count_matches": true, "invert_match": true},
	{"pattern": "needle", "files_without_match": true}, {"pattern": "seven|body", "files_without_match": true}, {"pattern": "needle", "files_without_match": true, "hidden": true, "glob": []string{"*.txt"}},
	{"pattern": "needle", "text": true}, {"pattern": "needle", "text": true, "output_mode": "count"}, {"pattern": "late", "text": true, "context": 1},
	{"pattern": "needle", "iglob": []string{"*.TXT"}}, {"pattern": "needle", "iglob": []string{"!*.Go"}}, {"pattern": "needle", "iglob": []string{"SRC/**"}}, {"pattern": "needle", "glob": []string{"*.go"}, "iglob": []string{"!A*"}}, {"pattern": "needle", "iglob": []string{"[A-B].*"}},
	{"pattern": "needle", "follow": true}, {"pattern": "needle", "follow": true, "glob": []string{"*.go"}}, {"pattern": "needle", "follow": true, "output_mode": "files_with_matches"}, {"pattern": "needle", "follow": true, "files_without_match": true},
}

// TestOracleRareOptions compares the effects of rarely needed options with the effects in ripgrep (F5).
func TestOracleRareOptions(t *testing.T) {
	rg := peer.Ripgrep(t)
	for name, entries := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, entries...)
			hosts := h.inWays("disk", "events")
			for _, a := range rareCases {
				same(t, rg, name, a, hosts)
			}
		})
	}
}

// cases contains the calls that are compared in every tree.
var cases = []args{
	{"pattern": "needle"}, {"pattern": "needle", "hidden": true}, {"pattern": "needle", "no_ignore": true}, {"pattern": "needle", "hidden": true, "no_ignore": true},
	{"pattern": "needle", "output_mode": "count"}, {"pattern": "needle", "output_mode": "files_with_matches"}, {"pattern": "needle", "line_numbers": false},
	{"pattern": "needle", "context": 1}, {"pattern": "needle", "before": 2}, {"pattern": "needle", "after": 3}, {"pattern": "needle", "before": 1, "after": 2}, {"pattern": "needle", "context": 10},
	{"pattern": "NEEDLE", "ignore_case": true}, {"pattern": "k", "ignore_case": true}, {"pattern": "^needle$"}, {"pattern": "needle$"}, {"pattern": "^"}, {"pattern": ""}, {"pattern": "$"}, {"pattern": "^$"}, {"pattern": "^$", "context": 1},
	{"pattern": `\bneedle\b`}, {"pattern": `^\w+ \w+$`}, {"pattern": `\d`}, {"pattern": "n.*e"}, {"pattern": "^.*$", "output_mode": "count"}, {"pattern": `caf.`}, {"pattern": `\Aneedle`}, {"pattern": `needle\z`}, {"pattern": `(?-u)\xff`}, {"pattern": `\s$`}, {"pattern": `[^\x00-\x7f]`},
	{"pattern": "needle", "glob": []string{"*.go"}}, {"pattern": "needle", "glob": []string{"!*.go"}}, {"pattern": "needle", "glob": []string{"*.{ts,tsx}"}}, {"pattern": "needle", "glob": []string{"src/**"}}, {"pattern": "needle", "glob": []string{"/src/*.rs"}}, {"pattern": "needle", "glob": []string{"src/*.rs"}},
	{"pattern": "needle", "glob": []string{"*.log"}}, {"pattern": "needle", "glob": []string{"a.txt", "*.log", "!keep.log"}}, {"pattern": "needle", "glob": []string{"!src"}}, {"pattern": "needle", "glob": []string{"src/"}}, {"pattern": "needle", "glob": []string{"node_modules"}}, {"pattern": "needle", "glob": []string{"**/lib/**"}}, {"pattern": "needle", "glob": []string{".*"}},
	{"pattern": "needle", "glob": []string{"*"}}, {"pattern": "needle", "glob": []string{"[a-c]*"}}, {"pattern": "needle", "glob": []string{"[!a-c]*.go"}}, {"pattern": "needle", "glob": []string{"[a"}}, {"pattern": "needle", "glob": []string{"{a"}}, {"pattern": "needle", "glob": []string{"dir.js"}}, {"pattern": "needle", "glob": []string{"build"}},
	{"pattern": "needle", "type": "go"}, {"pattern": "needle", "type": "ts"}, {"pattern": "needle", "type": "sh"}, {"pattern": "needle", "type": "md"}, {"pattern": "needle", "type": "nosuchtype"}, {"pattern": "needle", "type": "make"}, {"pattern": "needle", "type": "go", "glob": []string{"*.ts"}}, {"pattern": "needle", "type": "txt", "hidden": true},
	{"pattern": `start \{[^}]*\}`, "multiline": true}, {"pattern": `needle\n`, "multiline": true}, {"pattern": `(?s)needle.*needle`, "multiline": true}, {"pattern": `\n\n`, "multiline": true}, {"pattern": "needle", "multiline": true}, {"pattern": `^$`, "multiline": true}, {"pattern": `e$\n^t`, "multiline": true, "context": 1}, {"pattern": `start \{[^}]*\}`, "multiline": true, "output_mode": "count"},
	{"pattern": `\s+`, "multiline": true, "output_mode": "count"}, {"pattern": `needle\s*`, "multiline": true, "after": 1}, {"pattern": `x*`, "multiline": true, "output_mode": "count"}, {"pattern": `^needle`, "multiline": true, "output_mode": "files_with_matches"}, {"pattern": `(?s)^.*$`, "multiline": true, "output_mode": "count"}, {"pattern": `$`, "multiline": true, "before": 1}, {"pattern": `a\nb`}, {"pattern": "needle(", "dialect": "fixed"}, {"pattern": "needle", "dialect": "fixed", "ignore_case": true},
}

func TestOracleLikeRipgrep(t *testing.T) {
	rg := peer.Ripgrep(t)
	for name, entries := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, entries...)
			hosts := h.inWays("disk", "events", "small")
			for _, a := range cases {
				same(t, rg, name, a, hosts)
			}
			paths, err := filepath.Glob(h.path("*"))
			must(t, err)
			for _, p := range paths {
				rel, err := filepath.Rel(h.cwd, p)
				must(t, err)
				if _, err := os.Stat(p); err != nil {
					continue
				}
				for _, a := range []args{
					{"pattern": "needle"}, {"pattern": "needle", "context": 1}, {"pattern": "needle", "output_mode": "count"}, {"pattern": "needle", "glob": []string{"*.go"}}, {"pattern": "needle", "type": "rust"}, {"pattern": `e\n`, "multiline": true}, {"pattern": "^n", "output_mode": "files_with_matches"}, {"pattern": "needle", "glob": []string{"/a/*"}},
				} {
					a["path"] = rel
					same(t, rg, name, a, hosts)
				}
			}
		})
	}
}

// TestOracleGlobalExcludes compares the effect of git's global excludes file with ripgrep.
func TestOracleGlobalExcludes(t *testing.T) {
	rg := peer.Ripgrep(t)
	for name, files := range map[string][]string{
		"default":   {"config/git/ignore=*.log\n/anchored\nsub/x.txt\n"},
		"gitconfig": {".gitconfig=[core]\n\texcludesFile = ~/mine\n", "mine=*.log\n"},
		"xdg":       {"config/git/config=[core]\nexcludesfile=\"~/mine\"\n", "mine=sub/\n"},
	} {
		h := newHost(t, ".git/HEAD=x", "a.log=needle", "anchored=needle", "sub/anchored=needle", "sub/x.txt=needle", "b.txt=needle", ".gitignore=!a.log\n")
		inert := newHost(t, "a.log=needle")
		home := ownHome(t)
		at := &host{t: t, cwd: home}
		for _, f := range files {
			at.add(f)
		}
		hosts := h.inWays()
		for _, a := range []args{{"pattern": "needle"}, {"pattern": "needle", "path": "sub"}, {"pattern": "needle", "no_ignore": true}} {
			same(t, rg, name, a, hosts)
		}
		inert.same(rg, name+" without a repository", args{"pattern": "needle"})
	}
}

// TestOracleParentRules compares the effect of ignore files above the start directory with ripgrep. Some of these
// files are inside the root, and others are above the root.
func TestOracleParentRules(t *testing.T) {
	rg := peer.Ripgrep(t)
	h := newHost(t, ".git/HEAD=x", ".gitignore=*.log\n/a/b/anchored\n", ".git/info/exclude=ex.txt\n", ".ignore=plain.txt\n", "a/.gitignore=mid.txt\n", "a/.rgignore=rg.txt\n",
		"a/b/x.log=needle", "a/b/anchored=needle", "a/b/mid.txt=needle", "a/b/rg.txt=needle", "a/b/plain.txt=needle", "a/b/ex.txt=needle", "a/b/ok.txt=needle", "a/b/c/x.log=needle", "a/b/c/ok.txt=needle", "a/b/.hid=needle")
	for _, path := range []string{"a", "a/b", "a/b/c", "./a/b"} {
		h.same(rg, "path", args{"pattern": "needle", "path": path})
	}
	h.cwd = h.path("a/b")
	same(t, rg, "cwd", args{"pattern": "needle"}, h.inWays())
	h.roots[0].Path = h.cwd
	hosts := h.inWays()
	same(t, rg, "root", args{"pattern": "needle"}, hosts)
	same(t, rg, "root", args{"pattern": "needle", "path": "c"}, hosts)
	same(t, rg, "root", args{"pattern": "needle", "path": "c", "no_ignore": true}, hosts)
	// Create, change and remove ignore files above the root.
	for _, change := range []string{"../.gitignore=ok.txt\n", "../.ignore=!mid.txt\n", "../../.git/info/exclude=x.log\n", "../../.ignore=\n"} {
		h.add(change)
		same(t, rg, change, args{"pattern": "needle"}, hosts)
	}
	must(t, os.RemoveAll(h.path("../.gitignore")))
	same(t, rg, "removed", args{"pattern": "needle"}, hosts)
	must(t, os.RemoveAll(h.path("../../.git")))
	same(t, rg, "no repository", args{"pattern": "needle"}, hosts)
}

func randomCase(r *rand.Rand, tree []string) args {
	a := args{"pattern": pick(r, "needle", "needle", "foo", "^foo", "bar$", `\w+`, `\bneedle\b`, "(?i)FOO", `n.*e`, "^$", "x.y", `\s`, `[^a-z]`, `e\s+f`, `foo\(`, "é", "needle|foo")}
	maybe := func(odds int, key string, value any) {
		if r.IntN(odds) == 0 {
			a[key] = value
		}
	}
	maybe(4, "hidden", true)
	maybe(5, "no_ignore", true)
	maybe(5, "ignore_case", true)
	maybe(4, "glob", []string{pick(r, "*.go", "!*.go", "a/**", "/a", "**/b/*", "{x,y}.go", "b", "!a", ".h"), pick(r, "*.txt", "!x.*", "*")})
	maybe(8, "glob", []string{pick(r, "*.go", "!*.go", "a/**", "/a", "**/b/*", "{x,y}.go", "b", "!a", ".h", "*a*", "[ab]*")})
	maybe(6, "type", pick(r, "go", "txt", "make"))
	maybe(4, "context", 1+r.IntN(3))
	maybe(6, "before", r.IntN(3)+1)
	maybe(4, "multiline", true)
	maybe(4, "output_mode", pick(r, "count", "files_with_matches"))
	if r.IntN(3) == 0 {
		p, content, _ := strings.Cut(pick(r, tree...), "=")
		a["path"] = filepath.Clean(p)
		if strings.Contains(content, "\x00") {
			// If a match contains a NUL byte, ripgrep prints the context lines before the match but not the match.
			delete(a, "before")
			delete(a, "context")
		}
	}
	if a["pattern"] == "^$" {
		// ripgrep prints the context lines before the end of the file, although no line matches at the end.
		delete(a, "multiline")
	}
	if a["context"] != nil {
		delete(a, "before")
	}
	return a
}

func TestOracleRandomTreesLikeRipgrep(t *testing.T) {
	rg := peer.Ripgrep(t)
	random(t, 30, func(t *testing.T, seed uint64, r *rand.Rand) {
		tree := randomTree(r)
		h := newHost(t, tree...)
		hosts := h.inWays("disk", pick(r, "events", "few"), pick(r, "stat", "small"))
		for round := range 8 {
			same(t, rg, fmt.Sprintf("seed %d round %d %.600q", seed, round, tree), randomCase(r, tree), hosts)
			for range r.IntN(4) {
				h.edit(r, tree)
			}
		}
	})
}
