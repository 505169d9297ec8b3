package snippets_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/plugins/snippet/snippets"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

type args = map[string]any

// host returns a host with the plugin. The plugin stores its state in the directory state. If state is empty, it
// stores the state in memory.
func host(t testing.TB, state, config string) *tooltest.Host {
	t.Helper()
	h := tooltest.New(t, snippets.Plugin(), t.TempDir())
	if diags := h.Configure(tool.Configuration{Config: json.RawMessage(config), StateDir: state}); len(diags) > 0 {
		t.Fatal(diags)
	}
	return h
}

// does calls a tool and fails the test if the call fails. It returns the output and the decoded data.
func does(t testing.TB, h *tooltest.Host, name string, a args) (string, map[string]any) {
	t.Helper()
	res := h.Call(name, a)
	if res.Error != nil {
		t.Fatalf("%s %v: %v", name, a, res.Error)
	}
	var data map[string]any
	if err := json.Unmarshal(res.Data, &data); err != nil {
		t.Fatal(err)
	}
	return res.Output, data
}

// This helper calls a tool and expects an error of the given kind. The message must contain all words.
func refuses(t testing.TB, h *tooltest.Host, name string, a args, kind tool.Kind, words string) {
	t.Helper()
	res := h.Call(name, a)
	if res.Error == nil || res.Error.Kind != kind || !strings.Contains(res.Error.Message, words) {
		t.Errorf("%s: %v %q, wanted %s with %q", name, res.Error, res.Output, kind, words)
	}
}

// names returns the names in a list, in the order of the list.
func names(data map[string]any) string {
	var out []string
	for _, s := range data["snippets"].([]any) {
		out = append(out, s.(map[string]any)["name"].(string))
	}
	return strings.Join(out, " ")
}

func TestSaveAndLoad(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	h := host(t, state, `{}`)
	code := "one\r\n\ttwo \x00 \u65e5\u672c'\"\n\n"
	text, data := does(t, h, "snippet_save", args{"name": " First ", "code": code, "description": "What it\ndoes", "language": "Go", "tags": []string{"A, b", "a"}})
	if text != `Saved "First" (id 1).` || data["outcome"] != "created" || data["persistent"] != true {
		t.Errorf("%q %v", text, data)
	}
	for _, by := range []args{{"name": "First"}, {"name": "1"}, {"id": 1}} {
		text, data = does(t, h, "snippet_load", by)
		if text != code || data["code"] != code || data["language"] != "go" || fmt.Sprint(data["tags"]) != "[a b]" || data["description"] != "What it\ndoes" ||
			data["bytes"] != float64(len(code)) || data["created_at"] != data["updated_at"] {
			t.Errorf("by %v: %q %v", by, text, data)
		}
	}

	// An omitted field keeps its value. The library keeps the previous version of the snippet.
	text, data = does(t, h, "snippet_save", args{"name": "First", "code": "2"})
	if text != `Saved version 2 of "First" (id 1).` || data["language"] != "go" || data["outcome"] != "updated" {
		t.Errorf("%q %v", text, data)
	}
	if text, data = does(t, h, "snippet_save", args{"name": "First", "code": "2"}); data["outcome"] != "unchanged" || data["version"] != 2.0 || !strings.Contains(text, "was not changed: version 2 is identical") {
		t.Errorf("%q %v", text, data)
	}
	if _, data = does(t, h, "snippet_save", args{"name": "First", "code": "2", "description": "", "tags": []string{}}); data["version"] != 3.0 || data["description"] != "" || len(data["tags"].([]any)) != 0 {
		t.Errorf("%v", data)
	}
	text, data = does(t, h, "snippet_load", args{"name": "First", "version": 1})
	if text != code || data["version"] != 1.0 || data["description"] != "What it\ndoes" || fmt.Sprint(data["tags"]) != "[a b]" || len(data["versions"].([]any)) != 3 {
		t.Errorf("%q %v", text, data)
	}

	// Another process must find all snippets. No other user must be able to read the file.
	if text, _ := does(t, host(t, state, `{}`), "snippet_load", args{"id": 1, "version": 2}); text != "2" {
		t.Errorf("%q", text)
	}
	files, err := os.ReadDir(state)
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f.Name(), info.Mode(), err)
		}
	}

	if text, data = does(t, h, "snippet_delete", args{"name": "First"}); text != `Deleted "First" (id 1) with 3 versions.` || data["versions_deleted"] != 3.0 {
		t.Errorf("%q %v", text, data)
	}
	refuses(t, h, "snippet_load", args{"id": 1}, tool.NotFound, "The library is empty")
	if _, data = does(t, h, "snippet_list", args{"query": "two"}); data["total"] != 0.0 {
		t.Errorf("%v", data)
	}
	if _, data = does(t, h, "snippet_save", args{"name": "First", "code": "again"}); data["id"] != 2.0 || data["version"] != 1.0 {
		t.Errorf("an id is given again: %v", data)
	}
}

func TestVersionsAreBounded(t *testing.T) {
	h := host(t, t.TempDir(), `{"versions": 3}`)
	for i := range 7 {
		does(t, h, "snippet_save", args{"name": "n", "code": fmt.Sprint(i)})
	}
	if text, _ := does(t, h, "snippet_load", args{"name": "n", "version": 5}); text != "4" {
		t.Errorf("%q", text)
	}
	refuses(t, h, "snippet_load", args{"name": "n", "version": 4}, tool.NotFound, "Stored are the versions 5 to 7")
	refuses(t, h, "snippet_load", args{"name": "n", "version": 8}, tool.NotFound, "Stored are the versions 5 to 7")
}

func TestFull(t *testing.T) {
	h := host(t, t.TempDir(), `{"max_mb": 1, "versions": 2}`)
	half := strings.Repeat("x\n", 1<<18)
	does(t, h, "snippet_save", args{"name": "a", "code": half})
	does(t, h, "snippet_save", args{"name": "b", "code": half})
	refuses(t, h, "snippet_save", args{"name": "c", "code": "c"}, tool.ExecutionFailed, "contains 1048576 bytes, and the limit for all versions together is 1048576")
	refuses(t, h, "snippet_load", args{"name": "c"}, tool.NotFound, "Unknown snippet")
	does(t, h, "snippet_delete", args{"name": "a"})
	does(t, h, "snippet_save", args{"name": "c", "code": "c"})
	// With this version, all versions together have exactly the maximum size.
	does(t, h, "snippet_save", args{"name": "c", "code": half[1:]})
	refuses(t, h, "snippet_save", args{"name": "c", "code": half[2:]}, tool.ExecutionFailed, "The snippet was not saved")
}

func TestList(t *testing.T) {
	h := host(t, t.TempDir(), `{}`)
	if text, _ := does(t, h, "snippet_list", args{"query": "x"}); !strings.Contains(text, "The library is empty") {
		t.Errorf("%q", text)
	}
	for _, s := range []args{
		{"name": "retry", "code": "func parseHTTPBody() {}", "description": "Tries again", "language": "Go", "tags": []string{"http", "net"}},
		{"name": "read_json", "code": "json.load(open(p))", "description": "Café files, " + strings.Repeat("long ", 100), "language": "python", "tags": []string{"files"}},
		{"name": "backoff", "code": "sleep 1 # then retry", "language": "sh", "tags": []string{"net"}},
	} {
		does(t, h, "snippet_save", s)
	}
	does(t, h, "snippet_save", args{"name": "backoff", "code": "sleep 2 # then retry"})
	for _, tc := range []struct {
		args args
		want string
	}{
		{args{}, "backoff read_json retry"},
		{args{"query": "retry"}, "retry backoff"}, // a match in the name has priority over a match in the code
		{args{"query": "RETR"}, "retry backoff"},
		{args{"query": "retry sleep"}, "backoff"},
		{args{"query": "sleep 1"}, ""}, // a search finds only the last version
		{args{"query": "json"}, "read_json"},
		{args{"query": "read_json"}, "read_json"},
		{args{"query": "json.load("}, "read_json"},
		{args{"query": "cafe"}, "read_json"},
		{args{"query": "http"}, "retry"},
		{args{"query": "body"}, "retry"}, // body is a part of parseHTTPBody
		{args{"query": "parsehttp"}, "retry"},
		{args{"query": "python"}, "read_json"},
		{args{"query": `" OR retry --`}, ""}, // quotes and operators have no special meaning
		{args{"query": `retry" AND "sl`}, ""},
		{args{"query": "name:retry"}, ""},
		{args{"tags": []string{"NET"}}, "backoff retry"},
		{args{"tags": []string{"net", "http"}}, "retry"},
		{args{"tags": []string{"net,http"}}, "retry"},
		{args{"tags": []string{"ne"}}, ""},
		{args{"language": "GO"}, "retry"},
		{args{"language": "g"}, ""},
		{args{"query": "retry", "tags": []string{"net"}, "language": "sh"}, "backoff"},
		{args{"limit": 1}, "backoff"},
		{args{"limit": 1, "offset": 1}, "read_json"},
		{args{"offset": 3}, ""},
	} {
		if text, data := does(t, h, "snippet_list", tc.args); names(data) != tc.want {
			t.Errorf("%v: %q, wanted %q\n%s", tc.args, names(data), tc.want, text)
		}
	}

	text, data := does(t, h, "snippet_list", args{"limit": 2})
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || lines[0] != "3  backoff  (sh #net v2)" || !strings.HasPrefix(lines[1], "2  read_json  (python #files)  Café files, long long") || len(lines[1]) > 250 ||
		lines[2] != "(1 to 2 of 3. Continue with --offset 2.)" || data["truncated"] != true || data["total"] != 3.0 {
		t.Errorf("%q %v", text, data)
	}
	for want, a := range map[string]args{
		`has the tag "htp". Did you mean "http"?`:                            {"tags": []string{"htp"}},
		`in the language "pyton". Did you mean "python"?`:                    {"language": "pyton"},
		"None of 3 snippets matches. A snippet must contain all words":       {"query": "retry nothing"},
		"(The offset is past the end of 3 snippets. Give a smaller offset.)": {"offset": 3},
	} {
		if text, _ := does(t, h, "snippet_list", a); !strings.Contains(text, want) {
			t.Errorf("%v: %q, wanted %q", a, text, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	h := host(t, t.TempDir(), `{}`)
	does(t, h, "snippet_save", args{"name": "retry-http", "code": "x"})
	many := strings.Split(strings.Repeat("t,", 51), ",")
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, tc := range []struct {
		tool  string
		args  args
		kind  tool.Kind
		words string
	}{
		{"snippet_save", args{"name": " ", "code": "x"}, tool.InvalidArguments, "name is empty"},
		{"snippet_save", args{"name": strings.Repeat("é", 201), "code": "x"}, tool.InvalidArguments, "201 characters"},
		{"snippet_save", args{"name": "a\nb", "code": "x"}, tool.InvalidArguments, "control characters"},
		{"snippet_save", args{"name": "12", "code": "x"}, tool.InvalidArguments, "is a number"},
		{"snippet_save", args{"name": "a", "code": ""}, tool.InvalidArguments, "code is empty"},
		{"snippet_save", args{"name": "a", "code": strings.Repeat("x", 1<<20+1)}, tool.InvalidArguments, "1048577 bytes"},
		{"snippet_save", args{"name": "a", "code": "x", "description": strings.Repeat("x", 4001)}, tool.InvalidArguments, "4001 characters"},
		{"snippet_save", args{"name": "a", "code": "x", "language": strings.Repeat("x", 51)}, tool.InvalidArguments, "language has 51"},
		{"snippet_save", args{"name": "a", "code": "x", "tags": many}, tool.InvalidArguments, "more than 50 tags"},
		{"snippet_save", args{"name": "a", "code": "x", "tags": []string{"a\tb"}}, tool.InvalidArguments, "control characters"},
		{"snippet_load", args{}, tool.InvalidArguments, "name or its id"},
		{"snippet_load", args{"name": "a", "id": 1}, tool.InvalidArguments, "Both name and id are set"},
		{"snippet_load", args{"id": -1}, tool.InvalidArguments, "id"},
		{"snippet_load", args{"name": "99999999999999999999"}, tool.InvalidArguments, "99999999999999999999 is not valid"},
		{"snippet_load", args{"name": "retry_htp"}, tool.NotFound, `Did you mean "retry-http"?`},
		{"snippet_load", args{"name": "' OR 1=1 --"}, tool.NotFound, "To search, run snippet_list QUERY"},
		{"snippet_load", args{"id": 7}, tool.NotFound, "Unknown snippet with the id 7"},
		{"snippet_delete", args{"name": "retry"}, tool.NotFound, "Did you mean"},
		{"snippet_list", args{"query": "((("}, tool.InvalidArguments, "contains only punctuation"},
		{"snippet_list", args{"query": strings.Repeat("a ", 501)}, tool.InvalidArguments, "1002 bytes"},
		{"snippet_list", args{"limit": 501}, tool.InvalidArguments, "limit"},
	} {
		refuses(t, h, tc.tool, tc.args, tc.kind, tc.words)
	}
	if _, data := does(t, h, "snippet_list", nil); data["total"] != 1.0 {
		t.Errorf("%v", data)
	}
	// Values of the maximum length must be valid.
	does(t, h, "snippet_save", args{"name": strings.Repeat("é", 200), "code": strings.Repeat("x y", 1<<20/3), "description": strings.Repeat("é", 4000), "tags": many[:50]})
}

func TestWithoutStateDirectory(t *testing.T) {
	h := host(t, "", `{}`)
	refuses(t, h, "snippet_load", args{"name": "a"}, tool.NotFound, "kept in memory")
	text, data := does(t, h, "snippet_save", args{"name": "a", "code": "x"})
	if !strings.Contains(text, "lost when the plugin exits") || data["persistent"] != false {
		t.Errorf("%q %v", text, data)
	}
	if text, data = does(t, h, "snippet_list", nil); !strings.Contains(text, "lost when the plugin exits") || data["persistent"] != false || names(data) != "a" {
		t.Errorf("%q %v", text, data)
	}
	if text, _ = does(t, h, "snippet_load", args{"name": "a"}); text != "x" {
		t.Errorf("%q", text)
	}
}
