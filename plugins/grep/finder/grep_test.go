package finder

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// TestHugeArguments checks that the tools quickly reject far too long arguments.
func TestHugeArguments(t *testing.T) {
	h := newHost(t, "a.go=package a\n")
	huge := strings.Repeat("abcdefg*", 1<<17)
	h.refuses("grep", args{"pattern": huge}, tool.InvalidArguments, "1048576 bytes")
	h.refuses("grep", args{"pattern": huge, "dialect": "fixed", "ignore_case": true}, tool.InvalidArguments, "1048576 bytes")
	h.refuses("grep", args{"pattern": "a", "glob": []string{huge}}, tool.InvalidArguments, "too long")
	h.refuses("glob", args{"pattern": huge}, tool.InvalidArguments, "too long")
	h.refuses("code_query", args{"query": strings.Repeat("abcdefgh", 1<<17)}, tool.InvalidArguments, "1048576 bytes")
	h.refuses("code_query", args{"query": huge}, tool.InvalidArguments, "bytes")
}

func TestDefinitions(t *testing.T) {
	p, err := sdk.New(Plugin())
	must(t, err)
	d, err := p.Describe(t.Context())
	must(t, err)
	order := map[string][]string{
		"grep": {"pattern", "path", "glob", "ignore_case", "output_mode", "line_numbers", "after", "before", "context", "head_limit", "offset", "multiline", "type", "dialect", "hidden", "no_ignore"},
		"glob": {"pattern", "path", "head_limit", "offset", "hidden", "no_ignore"},
	}
	for _, def := range d.Tools {
		want := tool.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}
		if def.Traits != want || def.Category != tool.CategoryBuiltin || len(def.Examples) == 0 {
			t.Errorf("%s: %+v, %s, %q", def.Name, def.Traits, def.Category, def.Examples)
		}
		s, err := tool.ParseSchema(def.Input)
		must(t, err)
		for _, name := range order[def.Name] {
			param := s.Param(name)
			if param == nil {
				t.Errorf("%s has no parameter %s", def.Name, name)
				continue
			}
			if param.Description == "" || param.Required != (name == "pattern") || (param.Path == "read") != (name == "path") {
				t.Errorf("%s %s: %+v", def.Name, name, param)
			}
		}
		delete(order, def.Name)
	}
	if len(order) > 0 {
		t.Errorf("not there: %v", order)
	}
}

func TestContent(t *testing.T) {
	h := newHost(t, "a.txt=one\nneedle here\nthree\n", "sub/b.txt=x needle", "c.txt=nothing")
	text, notes, d := h.grep(args{"pattern": "needle", "context": 1})
	want := "a.txt-1-one\na.txt:2:needle here\na.txt-3-three\n--\nsub/b.txt:1:x needle"
	if text != want || notes != "" {
		t.Errorf("got\n%s\n%s\nwant\n%s", text, notes, want)
	}
	if len(d.Matches) != 2 || d.Total != 2 || d.Truncated || d.Searched != 3 || d.Counts["a.txt"] != 1 || !slices.Equal(d.Files, []string{"a.txt", "sub/b.txt"}) {
		t.Errorf("%+v", d)
	}
	first, second := d.Matches[0], d.Matches[1]
	if first.File != "a.txt" || first.Line != 2 || first.Column != 1 || first.Text != "needle here" || !slices.Equal(first.Before, []string{"one"}) || !slices.Equal(first.After, []string{"three"}) {
		t.Errorf("%+v", first)
	}
	if second.Column != 3 || len(second.Before)+len(second.After) != 0 {
		t.Errorf("%+v", second)
	}
	if text, _, _ = h.grep(args{"pattern": "needle", "line_numbers": false}); text != "a.txt:needle here\nsub/b.txt:x needle" {
		t.Errorf("without numbers: %s", text)
	}
}

// TestDataFields checks the names of all fields of the structured result, because callers rely on them.
func TestDataFields(t *testing.T) {
	h := newHost(t, "a=x")
	for name, want := range map[string]string{
		"grep": `{"matches":[{"file":"a","line":1,"column":1,"text":"x","before":[],"after":[]}],"files":["a"],"counts":{"a":1},"total":1,"truncated":false,"searched":1,` +
			`"skipped":{"ignored":0,"hidden":0,"binary":0,"too_large":0,"permission":0,"special":0,"symlink":0,"failed":0}}`,
		"glob": `{"files":[{"name":"a","path":"` + h.path("a") + `","type":"file","size":1,"modified":"2001-02-03T04:05:06Z"}],"total":1,"truncated":false,"skipped":{"ignored":0,"hidden":0,"permission":0,"failed":0}}`,
	} {
		when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		must(t, os.Chtimes(h.path("a"), when, when))
		res := h.call(name, args{"pattern": map[string]string{"grep": "x", "glob": "*"}[name]})
		if res.Error != nil || string(res.Data) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, res.Error, res.Data, want)
		}
	}
	res := h.call("grep", args{"pattern": "nothing"})
	if !strings.HasPrefix(string(res.Data), `{"matches":[],"files":[],"counts":{},"total":0,`) {
		t.Errorf("without a match: %s", res.Data)
	}
}

func TestModes(t *testing.T) {
	h := newHost(t, "a=x\nx\n", "b=x\n", "c=y\n")
	text, _, d := h.grep(args{"pattern": "x", "output_mode": "files_with_matches"})
	if text != "a\nb" || d.Total != 2 || len(d.Matches) != 0 || len(d.Counts) != 0 || !slices.Equal(d.Files, []string{"a", "b"}) {
		t.Errorf("files: %q %+v", text, d)
	}
	text, _, d = h.grep(args{"pattern": "x", "output_mode": "count"})
	if text != "a:2\nb:1" || d.Total != 3 || d.Counts["a"] != 2 || d.Counts["b"] != 1 {
		t.Errorf("count: %q %+v", text, d)
	}
	text, notes, d := h.grep(args{"pattern": "x", "output_mode": "count", "head_limit": 1})
	if text != "a:2" || d.Total != 3 || !d.Truncated || !strings.Contains(notes, "1-1 of 2 files shown; continue with offset=1") {
		t.Errorf("count with a limit: %q %s %+v", text, notes, d)
	}
}

func TestLimits(t *testing.T) {
	h := newHost(t, "a="+strings.Repeat("x\n", 150), "b="+strings.Repeat("x\n", 100))
	text, notes, d := h.grep(args{"pattern": "x"})
	if strings.Count(text, "\n") != 99 || len(d.Matches) != 100 || d.Total != 250 || !d.Truncated || !strings.Contains(notes, "1-100 of 250 matches in 2 files shown; continue with offset=100") {
		t.Errorf("%d matches of %d, %s", len(d.Matches), d.Total, notes)
	}
	_, notes, d = h.grep(args{"pattern": "x", "offset": 100})
	if d.Matches[0].File != "a" || d.Matches[0].Line != 101 || d.Matches[99].File != "b" || d.Matches[99].Line != 50 || !strings.Contains(notes, "101-200 of 250") {
		t.Errorf("%+v %s", d.Matches[0], notes)
	}
	_, notes, d = h.grep(args{"pattern": "x", "offset": 200})
	if len(d.Matches) != 50 || !d.Truncated || !strings.Contains(notes, "201-250 of 250 matches shown, the last ones") {
		t.Errorf("%d matches, %s", len(d.Matches), notes)
	}
	_, notes, d = h.grep(args{"pattern": "x", "offset": 300})
	if len(d.Matches) != 0 || d.Total != 250 || !strings.Contains(notes, "offset 300 is past the end of 250 matches") {
		t.Errorf("%d matches, %s", len(d.Matches), notes)
	}
	_, notes, d = h.grep(args{"pattern": "x", "head_limit": 0})
	if len(d.Matches) != 250 || d.Truncated || notes != "" {
		t.Errorf("%d matches, %s", len(d.Matches), notes)
	}
	h.refuses("grep", args{"pattern": "x", "head_limit": -1}, tool.InvalidArguments, "head_limit")
	h.refuses("grep", args{"pattern": "x", "output_mode": "lines"}, tool.InvalidArguments, "output_mode", "files_with_matches")
}

func TestLongLines(t *testing.T) {
	h := newHost(t, "a="+strings.Repeat("é", 1000)+"needle"+strings.Repeat("b", 1000)+"\nneedle\n")
	text, notes, d := h.grep(args{"pattern": "needle"})
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "a:1:[… 875 characters] é") || !strings.HasSuffix(line, "b [… 631 more characters]") || !strings.Contains(line, "needle") || !strings.Contains(notes, "1 line longer than 500 characters") {
		t.Errorf("%s\n%s", line, notes)
	}
	m := d.Matches[0]
	if n := len([]rune(m.Text)); n != 500 || !m.Cut || m.Column != 2001 || d.Matches[1].Cut {
		t.Errorf("%d characters, %+v", n, m)
	}
}

func TestLineLengthIsConfigured(t *testing.T) {
	h := newHost(t, "a="+strings.Repeat("x", 1000))
	if diags, err := h.plugin.Configure(t.Context(), tool.Configuration{Config: json.RawMessage(`{"max_line":10}`)}); err != nil || len(diags) > 0 {
		t.Fatal(diags, err)
	}
	text, _, _ := h.grep(args{"pattern": "x"})
	if text != "a:1:xxxxxxxxxx [… 990 more characters]" {
		t.Errorf("%s", text)
	}
}

func TestNoMatches(t *testing.T) {
	h := newHost(t, ".git/HEAD=x", ".gitignore=*.log\n", "a.log=needle", ".hid=needle", "b.txt=nothing", "bin=\x00", "c -> b.txt")
	text, notes, d := h.grep(args{"pattern": "needle"})
	for _, want := range []string{"No matches for needle in the working directory; 2 files searched", "not searched: 1 ignored, 3 hidden, 1 binary, 1 symbolic link. Use no_ignore=true or hidden=true"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
	if text != "" || d.Total != 0 || d.Skipped.Ignored != 1 || d.Skipped.Hidden != 3 || d.Skipped.Binary != 1 || d.Skipped.Symlink != 1 {
		t.Errorf("%q %+v", text, d)
	}
	res := h.call("grep", args{"pattern": "needle"})
	if !res.Success() || res.Title != "Search . for needle: 0 matches in 0 files" {
		t.Errorf("title %q", res.Title)
	}
}

func TestSkippedIsTold(t *testing.T) {
	h := newHost(t, "a=needle", "bin=needle\x00", "big.log=needle\n")
	must(t, unix.Mkfifo(h.path("fifo"), 0o600))
	_, notes, d := h.grep(args{"pattern": "needle"})
	if d.Skipped.Special != 1 || d.Skipped.Binary != 1 || !strings.Contains(notes, "not searched: 1 binary, 1 FIFO, socket or device") {
		t.Errorf("%s %+v", notes, d.Skipped)
	}
	must(t, os.Truncate(h.path("big.log"), 5<<30))
	if _, notes, _ = h.grep(args{"pattern": `needle\n`, "multiline": true, "path": "."}); !strings.Contains(notes, "1 too large") {
		t.Error(notes)
	}
	// A line search does not read the five gigabytes of NUL bytes.
	if _, _, d = h.grep(args{"pattern": "needle"}); d.Skipped.Binary != 2 {
		t.Errorf("%+v", d.Skipped)
	}
}

func TestBinaryFileThatIsNamed(t *testing.T) {
	h := newHost(t, "bin=needle\n\x00\nneedle\n", "none=\x00")
	text, notes, d := h.grep(args{"pattern": "needle", "path": "bin"})
	if text != "" || !strings.Contains(notes, "bin is binary and has a match, which is not shown: at a NUL byte around offset 7") || strings.Contains(notes, "No matches") || !slices.Equal(d.Files, []string{"bin"}) || d.Skipped.Binary != 1 {
		t.Errorf("%q %q %+v", text, notes, d)
	}
	if text, _, d = h.grep(args{"pattern": "needle", "path": "bin", "output_mode": "count"}); text != "bin:2" || d.Total != 2 {
		t.Errorf("%q %+v", text, d)
	}
	if _, notes, _ = h.grep(args{"pattern": "needle", "path": "none"}); !strings.Contains(notes, "No matches for needle in none; 1 file searched") {
		t.Errorf("%q", notes)
	}
}

func TestPaths(t *testing.T) {
	h := newHost(t, "src/a.go=needle", "other/b.go=needle", "link -> src", "src/deep/c.go=needle", "out -> /etc", "loop -> loop")
	for path, want := range map[string]string{
		"src": "src/a.go:1:needle\nsrc/deep/c.go:1:needle", "./src/": "src/a.go:1:needle\nsrc/deep/c.go:1:needle", h.path("src"): "src/a.go:1:needle\nsrc/deep/c.go:1:needle",
		"src/a.go": "src/a.go:1:needle", "link": "link/a.go:1:needle\nlink/deep/c.go:1:needle", "link/a.go": "link/a.go:1:needle",
	} {
		if text, _, _ := h.grep(args{"pattern": "needle", "path": path}); text != want {
			t.Errorf("%s: %q, want %q", path, text, want)
		}
	}
	for _, path := range []string{"/etc", "..", "out", "out/passwd", "src/../../x"} {
		h.refuses("grep", args{"pattern": "root", "path": path}, tool.Security)
		h.refuses("glob", args{"pattern": "*", "path": path}, tool.Security)
	}
	h.refuses("grep", args{"pattern": "x", "path": "scr"}, tool.NotFound, "Path does not exist: scr", "src")
	h.refuses("grep", args{"pattern": "x", "path": "a\x00b"}, tool.Security, "NUL")
	h.refuses("grep", args{"pattern": "x", "path": "loop"}, tool.InvalidArguments, "loop")
	must(t, unix.Mkfifo(h.path("fifo"), 0o600))
	h.refuses("grep", args{"pattern": "x", "path": "fifo"}, tool.InvalidArguments, "FIFO")
	h.cwd = h.path("src/deep")
	if text, _, _ := h.grep(args{"pattern": "needle", "path": "../../other"}); text != h.roots[0].Path+"/other/b.go:1:needle" {
		t.Errorf("outside of the working directory: %q", text)
	}
}

func TestNoRoots(t *testing.T) {
	h := newHost(t, "a=x")
	h.roots = nil
	h.refuses("grep", args{"pattern": "x"}, tool.Security, "no access to files")
}

func TestInvalidPatterns(t *testing.T) {
	h := newHost(t, "a=x")
	for _, tc := range []struct {
		a     args
		words []string
	}{
		{args{"pattern": "foo("}, []string{"at character 4", "not closed", "    foo(\n       ^", "dialect=fixed"}},
		{args{"pattern": `a\nb`}, []string{"at character 2", "multiline"}},
		{args{"pattern": `(a)\1`}, []string{"back-references are not supported"}},
		{args{"pattern": "(?!x)"}, []string{"look-around is not supported"}},
		{args{"pattern": `\(a`, "dialect": "bre"}, []string{"at character 1", "not closed"}},
		{args{"pattern": "a{99999}", "dialect": "ere"}, []string{"at character 2", "too large"}},
		{args{"pattern": "x", "glob": []string{"*.go", "{a"}}, []string{`"{a"`, "has no matching }"}},
		{args{"pattern": "x", "type": "pyhton"}, []string{`file type "pyhton"`, "python"}},
		{args{"pattern": "x", "type": "zzz"}, []string{`file type "zzz"`, "glob=*.zzz"}},
		{args{"pattern": strings.Repeat("(", 300)}, []string{"nested too deeply"}},
		{args{"pattern": "(a{1000}){9999}"}, []string{"too large"}},
	} {
		h.refuses("grep", tc.a, tool.InvalidArguments, tc.words...)
	}
}

func TestDialects(t *testing.T) {
	h := newHost(t, "a=func(\na|b\nabc\nx+\n")
	for _, tc := range []struct{ dialect, pattern, want string }{
		{"rust", `func\(`, "a:1:func("}, {"bre", "func(", "a:1:func("}, {"bre", `x\|c`, "a:1:func(\na:3:abc\na:4:x+"}, {"ere", "a|x", "a:2:a|b\na:3:abc\na:4:x+"}, {"bre", "a|b", "a:2:a|b"}, {"fixed", "x+", "a:4:x+"}, {"fixed", "(\n|", "a:1:func(\na:2:a|b"},
	} {
		if text, _, _ := h.grep(args{"pattern": tc.pattern, "dialect": tc.dialect}); text != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.dialect, tc.pattern, text, tc.want)
		}
	}
}

func TestMultiline(t *testing.T) {
	h := newHost(t, "a=x {\n  y\n}\nz\n")
	text, _, d := h.grep(args{"pattern": `\{[^}]*\}`, "multiline": true, "after": 1})
	if text != "a:1:x {\na:2:  y\na:3:}\na-4-z" || len(d.Matches) != 1 || d.Matches[0].Text != "x {\n  y\n}" || d.Matches[0].Column != 3 || d.Total != 1 {
		t.Errorf("%q %+v", text, d)
	}
}

func TestOddNames(t *testing.T) {
	h := newHost(t, "new\nline=x", "bad\xffname=x", "a:b=x", "-dash=x", "sp ace=x")
	text, _, d := h.grep(args{"pattern": "x"})
	if len(d.Files) != 5 || strings.Count(text, "\n") != 4 || !strings.Contains(text, "new\uFFFDline:1:x") || !strings.Contains(text, "bad\uFFFDname:1:x") {
		t.Errorf("%q", text)
	}
}

// TestRulesBehindLinks checks ignore files that are links. The tool must read a link to a file inside the root, and
// ignore a link to a file outside of the root.
func TestRulesBehindLinks(t *testing.T) {
	outside := newHost(t, "rules=*.a\n")
	h := newHost(t, "x.a=needle", "x.b=needle", "sub/x.b=needle", ".ignore -> "+outside.path("rules"), "sub/.ignore -> ../inside", "inside=*.b\n")
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "x.a:1:needle\nx.b:1:needle" {
		t.Errorf("%q", text)
	}
	// The tool must also ignore the exclude file of a work tree if the repository is outside of the root.
	outside.add("repo/info/exclude=*.a\n")
	outside.add("repo/wt/commondir=..\n")
	h = newHost(t, "x.a=needle", ".git=gitdir: "+outside.path("repo/wt"))
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "x.a:1:needle" {
		t.Errorf("%q", text)
	}
	h.roots = append(h.roots, outside.roots...)
	if text, _, _ := h.grep(args{"pattern": "needle"}); text != "" {
		t.Errorf("with the repository among the roots: %q", text)
	}
}

func TestCancel(t *testing.T) {
	h := newHost(t, "a="+strings.Repeat("ab", 1_000_000))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	for name, pattern := range map[string]string{"grep": "(?:a|b)*a(?:a|b){2000}c", "glob": "**"} {
		res := h.plugin.Call(ctx, &tool.Call{Tool: name, Arguments: sdk.Data(map[string]any{"pattern": pattern, "path": "."}), Cwd: h.cwd, Roots: h.roots}, silent{})
		if res.Error == nil || res.Error.Kind != tool.Timeout {
			t.Errorf("%s: %v", name, res.Error)
		}
	}
}

// TestWhileFilesComeAndGo checks that searches succeed and find all lasting files while other files are created and
// removed.
func TestWhileFilesComeAndGo(t *testing.T) {
	h := newHost(t, "stays/a=needle")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			dir := h.path(fmt.Sprintf("d%d", i%5))
			_ = os.MkdirAll(filepath.Join(dir, "deep"), 0o700)
			_ = os.WriteFile(filepath.Join(dir, "deep", "f"), []byte("needle"), 0o600)
			_ = os.RemoveAll(dir)
		}
	})
	for range 100 {
		text, _, d := h.grep(args{"pattern": "needle", "path": "."})
		if !strings.HasSuffix(text, "stays/a:1:needle") || d.Skipped.Failed > 0 {
			t.Errorf("%q %+v", text, d.Skipped)
		}
		h.glob(args{"pattern": "**/f"})
	}
	close(stop)
	wg.Wait()
}

func TestCallsAtOnce(t *testing.T) {
	var entries []string
	for i := range 50 {
		entries = append(entries, fmt.Sprintf("d%d/f%d=%s", i%5, i, strings.Repeat("needle\nother\n", i)))
	}
	h := newHost(t, entries...)
	want, _, _ := h.grep(args{"pattern": `ne+dle`, "head_limit": 0})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, _, _ := h.grep(args{"pattern": `ne+dle`, "head_limit": 0}); got != want {
				t.Error("the results differ")
			}
		})
	}
	wg.Wait()
}
