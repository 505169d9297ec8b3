//go:build oracle && !race

package outline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/internal/peer"
	"toolhost.dev/plugins/grep/symbol"
)

// declared contains the properties of a declaration that are compared: its file, line, name and class. The class is
// "callable" or "type".
type declared struct {
	file  string
	line  int
	class string
	name  string
}

// ctagsKinds maps the kinds of ctags to the classes that are compared.
var ctagsKinds = map[string]string{
	"function": "callable", "method": "callable", "generator": "callable", "prototype": "callable", "macro": "callable",
	"class": "type", "struct": "type", "union": "type", "enum": "type", "interface": "type", "typedef": "type", "alias": "type", "annotation": "type",
}

// classOf returns the class of a symbol's kind. It returns "" if the kind is not compared.
func classOf(k symbol.Kind) string {
	switch {
	case symbol.Functions.Has(k):
		return "callable"
	case k >= symbol.Class && k <= symbol.Type:
		return "type"
	}
	return ""
}

// source is a set of files for the comparison of one language.
type source struct {
	name string
	args []string // arguments of ctags
	// files returns the files of the source. If it returns no files, the source is skipped.
	files func(t testing.TB) []string
	least int // minimal number of declarations that both programs must find
	// exact is true if a declaration that only this package finds counts as a difference.
	exact bool
	// kept is true if the files are in the repository. In this case, every excuse must match a difference.
	kept    bool
	excuses []excuse
	// lost is the permitted share of differences without an excuse. One cause of such differences is macros that
	// contain declarations, because macros are not expanded. Another cause is members of objects in functions,
	// because these members have no name outside of the function.
	lost float64
}

// excuse permits a kind of difference that is an error of ctags or a known gap of this package. Its regular
// expression matches the text of the difference: "ours class name|line" or "theirs class name|line".
type excuse struct{ difference, why string }

// anyWhere contains the excuses for all languages.
var anyWhere = []excuse{
	{`^theirs \w+ (__anon|AnonymousFunction|anonymous)`, "ctags makes up names for what has none"},
}

var (
	cExcuses = []excuse{
		{`^ours callable parenthesised\|`, "ctags does not see a function whose name is in parentheses"},
	}
	cppExcuses = []excuse{
		{`^ours type \w+\|.*\bconcept `, "ctags does not know concepts"},
		{`^ours type Exported\|class __declspec`, "ctags takes the attribute for the name"},
		{`^ours callable friendly\|friend `, "ctags leaves out friends that are declared and not defined"},
	}
	javaExcuses = []excuse{
		{`^ours \w+ \w+\|.*\brecord `, "ctags does not know records"},
		{`^ours callable (Pair|count|with)\|`, "these are in records"},
		{`^theirs type (Circle|B|Single)\|.* permits `, "ctags takes what follows permits for a declaration"},
		{`^ours type (Shape|Sealed|Records)\|.* permits `, "ctags takes what follows permits for the name"},
		{`^ours \w+ (Local|inLocal|InStatic|Kind|Shown|show)\|`, "ctags does not look into bodies"},
		{`^ours callable (run|anonymousMethod)\|`, "nor into anonymous classes"},
	}
	rustExcuses = []excuse{
		{`^ours type \w+\|(pub )?union `, "ctags does not know unions"},
		{`^ours callable type\|fn r#type`, "nor raw identifiers"},
	}
	typesExcuses = []excuse{
		{`^theirs callable new\|`, "a construct signature has no name"},
		{`^theirs type extends\|`, "a class without a name, or a condition on types"},
	}
	packagedTypesExcuses = slices.Concat(typesExcuses, []excuse{
		{`^theirs type \w+\|.*(\{|,) *type `, "a type that is imported or exported is not declared there"},
		{`^theirs type (\w+)\|.*\bextends `, "a condition on types"},
	})
	scriptExcuses = []excuse{
		{`^theirs type Derived\|Derived\.prototype\.added`, "ctags takes the first member for the class"},
		{`^theirs callable \[`, "a computed name is no name"},
		{`^theirs type Inner\|const Expression = class Inner`, "only Expression is a name outside of the class"},
		{`^theirs callable named\|`, "the name of a function that is a value is known only in it"},
		{`^theirs type \w+\|const \w+ = \{`, "ctags takes objects for classes"},
	}
	packagedScriptExcuses = []excuse{
		{`^theirs type [^|]*\|.*[{(,]$`, "ctags takes objects for classes"},
		{`^theirs type [^|]*\|.*[:=] *\{`, "ctags takes objects for classes"},
		{`^theirs type (\w+)\|.*function`, "ctags takes functions with members, or that use this, for classes"},
		{`^theirs type (\w+)\|.*\.prototype\b`, "ctags takes the first member for the class"},
		{`^theirs callable \[`, "a computed name is no name"},
		{`^theirs callable \w+\|.*[(=:?,&|] *(async )?function\*? \w+`, "the name of a function that is a value is known only in it"},
		{`^theirs callable \w+\|return (async )?function `, "the name of a function that is a value is known only in it"},
		{`^theirs callable \w+\|(var|let|const) \w+ = (/\*.*\*/ *)?\(?function`, "a variable with what a function gives is a variable"},
		{`^theirs callable \w+\|.*\.prototype\.\w+\.call\b`, "what is called is not declared there"},
		{`^theirs (callable|type) \w+\|.*\bclass \w+ `, "the name of a class that is a value is known only in it"},
	}
	pythonExcuses = []excuse{
		{`^ours type \w+\|type \w+`, "ctags does not know aliases"},
	}
	pythonLibraryExcuses = []excuse{
		{`^theirs callable \w+\|.*\blambda\b`, "a variable with a lambda is a variable"},
	}
)

var sources = []source{
	{name: "C, own", args: []string{"--kinds-C=+p"}, files: within("testdata", 1, ".c"), least: 10, exact: true, kept: true, excuses: cExcuses},
	{name: "C, headers of Linux", args: []string{"--langmap=C:.h", "--kinds-C=+p"}, files: within("/usr/include/linux", 5, ".h"), least: 500, exact: true, lost: 0.01},
	{name: "C, of Go", args: []string{"--kinds-C=+p"}, files: within(peer.GoSources(), 1, ".c"), least: 300, exact: true},
	{name: "C++, own", args: []string{"--kinds-C++=+p"}, files: within("testdata", 1, ".cpp"), least: 50, exact: true, kept: true, excuses: cppExcuses},
	{name: "C++, its library", args: []string{"--langmap=C++:.h.hpp.cc", "--kinds-C++=+p"}, files: within("/usr/include/c++", 9, ".h", ".hpp"), least: 300, lost: 0.02},
	{name: "Java, own", files: within("testdata", 1, ".java"), least: 40, exact: true, kept: true, excuses: javaExcuses},
	{name: "Rust, own", files: within("testdata", 1, ".rs"), least: 40, exact: true, kept: true, excuses: rustExcuses},
	{name: "TypeScript, own", files: within("testdata", 1, ".ts"), least: 20, kept: true, excuses: typesExcuses},
	{name: "TypeScript, packages", files: packages(20, ".d.ts"), least: 200, excuses: packagedTypesExcuses},
	{name: "JavaScript, own", files: within("testdata", 1, ".js"), least: 10, kept: true, excuses: scriptExcuses},
	{name: "JavaScript, packages", files: packages(30, ".js", ".mjs", ".cjs"), least: 200, excuses: packagedScriptExcuses, lost: 0.03},
	{name: "Python, own", files: within("testdata", 1, ".py"), least: 10, exact: true, kept: true, excuses: pythonExcuses},
	{name: "Python, its library", files: within("/usr/lib/python3.11", 8, ".py"), least: 500, exact: true, excuses: pythonLibraryExcuses},
}

// within returns a function that lists the files below a directory. It lists only every n-th file, where n is
// step.
func within(root string, step int, extensions ...string) func(t testing.TB) []string {
	return func(t testing.TB) (out []string) {
		t.Helper()
		const most = 200 << 10
		at := 0
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return nil // no error, because the check of the field "least" detects missing files
			}
			if err != nil {
				return err
			}
			if !e.Type().IsRegular() || strings.Contains(path, ".min.") || !slices.ContainsFunc(extensions, func(x string) bool { return strings.HasSuffix(path, x) }) {
				return nil
			}
			if at++; at%step != 0 {
				return nil
			}
			if info, err := e.Info(); err == nil && info.Size() < most {
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// packages returns a function that lists files of the installed npm packages.
func packages(step int, extensions ...string) func(t testing.TB) []string {
	return func(t testing.TB) []string {
		t.Helper()
		root, err := filepath.EvalSymlinks(filepath.Join(peer.Installed(), "node_modules"))
		if err != nil {
			return nil
		}
		return within(root, step, extensions...)(t)
	}
}

// ctags returns the declarations that ctags finds in files.
func ctags(t testing.TB, args, files []string) map[declared]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), peer.Ctags(t), append([]string{"--options=NONE", "--output-format=json", "--fields=+nSl", "--sort=no", "-f", "-", "-L", "-"}, args...)...) // #nosec G204 -- runs universal-ctags
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ctags: %v: %s", err, errs.String())
	}
	found := make(map[declared]bool)
	for line := range bytes.Lines(out) {
		var tag struct {
			Name, Path, Kind, Language, Signature string
			Line                                  int
		}
		if err := json.Unmarshal(line, &tag); err != nil {
			t.Fatalf("ctags: %v: %s", err, line)
		}
		class := ctagsKinds[tag.Kind]
		switch {
		case tag.Kind == "macro" && tag.Signature == "" && tag.Language != "Rust": // this package treats macros without parameters as constants
			class = ""
		case tag.Kind == "member" && tag.Language == "Python":
			class = "callable"
		}
		if class != "" {
			found[declared{tag.Path, tag.Line, class, plainName(tag.Name)}] = true
		}
	}
	return found
}

// plainName returns a name in the form that is compared. The names of ctags differ: ctags puts a space in operator
// names and omits a leading "#" or "r#".
func plainName(name string) string {
	if rest, ok := strings.CutPrefix(name, "operator"); ok && !wordly(rest) {
		return "operator" + strings.ReplaceAll(rest, " ", "")
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "#"), "r#")
}

// wordly reports whether rest begins with a letter or "_" after optional spaces. It also returns true if rest
// is empty.
func wordly(rest string) bool {
	rest = strings.TrimSpace(rest)
	return rest == "" || rest[0] == '_' || rest[0] >= 'a' && rest[0] <= 'z' || rest[0] >= 'A' && rest[0] <= 'Z'
}

// TestOracleLikeCtags compares functions and types with the functions and types that universal-ctags finds.
func TestOracleLikeCtags(t *testing.T) {
	o := New()
	defer o.Close()
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			files := s.files(t)
			if len(files) == 0 {
				t.Skip("there are no such files")
			}
			s.compare(t, o, files)
		})
	}
}

func (s source) compare(t *testing.T, o *Outliner, files []string) {
	theirs, ours := ctags(t, s.args, files), make(map[declared]bool)
	texts := make(map[string][][]byte)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		table, err := o.Table(t.Context(), file, text)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = bytes.Split(text, []byte("\n"))
		for _, sym := range table.Symbols {
			if class := classOf(sym.Kind); class != "" {
				ours[declared{file, int(sym.Line), class, plainName(sym.Name)}] = true
			}
		}
	}
	both := 0
	var differences []string
	excuses := slices.Concat(anyWhere, s.excuses)
	needed := make([]int, len(excuses))
	differ := func(who string, d declared) {
		line := ""
		if d.line <= len(texts[d.file]) {
			line = strings.TrimSpace(string(texts[d.file][d.line-1]))
		}
		what := fmt.Sprintf("%s %s %s|%s", who, d.class, d.name, line)
		for i, e := range excuses {
			if regexp.MustCompile(e.difference).MatchString(what) {
				needed[i]++
				return
			}
		}
		differences = append(differences, fmt.Sprintf("%s:%d: only %.160s", d.file, d.line, what))
	}
	for d := range theirs {
		if ours[d] {
			both++
		} else {
			differ("theirs", d)
		}
	}
	for d := range ours {
		if s.exact && !theirs[d] {
			differ("ours", d)
		}
	}
	slices.Sort(differences)
	for _, d := range differences {
		if s.lost > 0 {
			t.Log(d)
		} else {
			t.Error(d)
		}
	}
	if lost := float64(len(differences)); s.lost > 0 && lost > s.lost*float64(both) {
		t.Errorf("%d differences beside %d that are seen by both", len(differences), both)
	}
	if both < s.least {
		t.Errorf("only %d declarations are seen by both", both)
	}
	for i, e := range s.excuses {
		if s.kept && needed[i+len(anyWhere)] == 0 {
			t.Errorf("%s is no difference any more: %s", e.difference, e.why)
		}
	}
	t.Logf("%d files, %d declarations seen by both, %d excused", len(files), both, sum(needed))
}

func sum(of []int) (total int) {
	for _, n := range of {
		total += n
	}
	return total
}
