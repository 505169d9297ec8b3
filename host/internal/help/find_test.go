package help_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

type labelled struct {
	Namespace, Name, Description string
	OriginalName                 string
	Keywords                     []string
	Input                        json.RawMessage
}

func load(t *testing.T) (out []labelled) {
	t.Helper()
	read(t, &out)
	return out
}

func read(t testing.TB, into *[]labelled) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "tools.json"))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func register(t *testing.T, tools []labelled) *registry.Registry {
	t.Helper()
	r := registry.New()
	for _, l := range tools {
		add(t, r, l)
	}
	return r
}

func add(t testing.TB, r *registry.Registry, l labelled) {
	t.Helper()
	d := tool.Definition{Name: l.Name, Description: l.Description, Input: l.Input, OriginalName: l.OriginalName}
	if err := r.Add("p-"+l.Namespace+l.Name, l.Namespace, &tool.Description{Tools: []tool.Definition{d}}, false, func(string) registry.Settings {
		return registry.Settings{Keywords: l.Keywords}
	}); err != nil {
		t.Fatal(err)
	}
}

func everything(*registry.Entry) bool { return true }

func names(a *help.Answer) (out []string) {
	for _, h := range a.Hits {
		out = append(out, h.Tool.FullName())
	}
	return out
}

func search(t *testing.T, x *help.Index, r *registry.Registry, q help.Query) *help.Answer {
	t.Helper()
	return x.Search(r, everything, q)
}

// TestRanks compares the rank of the wanted tool for each query with the rank in testdata/queries.txt. Rank 0 means
// that the wanted tool is not among the first ten tools.
func TestRanks(t *testing.T) {
	r := register(t, load(t))
	x := new(help.Index)
	path := filepath.Join("testdata", "queries.txt")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		f := strings.Split(strings.TrimSpace(line), " | ")
		if len(f) != 3 || r.Find(f[2]) == nil {
			t.Fatalf("bad line %q", line)
		}
		rank := 1 + slices.Index(names(search(t, x, r, help.Query{Words: f[1], Limit: 10})), f[2])
		fmt.Fprintf(&got, "%d | %s | %s\n", rank, f[1], f[2])
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != string(want) {
		t.Errorf("the ranks changed; if they improved, write them with -update:\n%s", got.String())
	}
	if n := strings.Count(got.String(), "\n"); n != 60 || len(r.All()) != 30 {
		t.Errorf("%d queries, %d tools", n, len(r.All()))
	}
}

// TestAnyQuery checks that every text is a valid query, including the syntax of full-text queries and very long texts.
func TestAnyQuery(t *testing.T) {
	r := register(t, load(t))
	x := new(help.Index)
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "%c%c ", 'a'+i%26, 'a'+i/26)
	}
	for _, words := range []string{`issue" OR (`, "issue NEAR(a b) AND NOT {name}: *^", "issue\x00\xff", "issue " + many.String(), "issue नमस्ते 漢字 ①② ﷺ", strings.Repeat("issue ", 200_000)} {
		if got := names(search(t, x, r, help.Query{Words: words, Limit: 50})); !slices.Contains(got, "github:create_issue") {
			t.Errorf("%.40q: %v", words, got)
		}
	}
	if got := names(search(t, x, r, help.Query{Words: strings.Repeat("é ", 1000) + "issue"})); got != nil {
		t.Errorf("a word after the first 2000 characters finds %v", got)
	}
}

// TestSelection checks that a search respects its limit and its namespace. It also checks that a search does not find
// disabled tools or tools that the caller may not call.
func TestSelection(t *testing.T) {
	tools := load(t)
	r := register(t, tools)
	x := new(help.Index)
	if got := names(search(t, x, r, help.Query{Words: "file list create issue"})); len(got) != help.DefaultLimit {
		t.Errorf("without a limit: %v", got)
	}
	if got := names(search(t, x, r, help.Query{Words: "list", Namespace: "slack"})); !slices.Equal(got, []string{"slack:list_channels"}) {
		t.Errorf("in a namespace: %v", got)
	}
	a := x.Search(r, func(e *registry.Entry) bool { return e.Namespace != "github" }, help.Query{Words: "create issue", Limit: help.MaxLimit})
	if got := names(a); len(got) == 0 || strings.Contains(fmt.Sprint(got), "github") {
		t.Errorf("of another namespace: %v", got)
	}
	off := false
	other := registry.New()
	d := tool.Definition{Name: "gone", Description: "Create an issue.", Input: json.RawMessage(`{"type":"object"}`)}
	if err := other.Add("p", "x", &tool.Description{Tools: []tool.Definition{d}}, false, func(string) registry.Settings { return registry.Settings{Enabled: &off} }); err != nil {
		t.Fatal(err)
	}
	if a := search(t, x, other, help.Query{Words: "create issue"}); a.Hits != nil || a.Namespaces != nil {
		t.Errorf("of a disabled tool: %+v", a)
	}
}

// TestNamespaces checks the answers to an empty query and to a query without hits.
func TestNamespaces(t *testing.T) {
	r := register(t, load(t))
	x := new(help.Index)
	for query, want := range map[string]string{
		"":         "github slack postgres browser calendar weather stripe files",
		"\nthe of": "github slack postgres browser calendar weather stripe files",
		"wether":   "weather github slack",
		"databse":  "postgres github slack",
		"xyzzy":    "github slack browser",
	} {
		var got []string
		a := search(t, x, r, help.Query{Words: query})
		for _, n := range a.Namespaces {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != want || a.Hits != nil {
			t.Errorf("%q: %v %v, wanted %s", query, got, names(a), want)
		}
	}
}

// TestChange checks that a search uses only the given registry, even if an earlier or later search uses another
// registry.
func TestChange(t *testing.T) {
	tools := load(t)
	x := new(help.Index)
	first := register(t, tools)
	if got := names(search(t, x, first, help.Query{Words: "refund"})); !slices.Equal(got, []string{"stripe:refund_payment"}) {
		t.Fatalf("before: %v", got)
	}
	for i := range tools {
		switch tools[i].Name {
		case "refund_payment":
			tools[i].Name, tools[i].Description = "reimburse", "Pay back."
		case "alerts":
			tools[i].Keywords = []string{"refund"}
		}
	}
	second := register(t, tools)
	for _, step := range []struct {
		r     *registry.Registry
		query string
		want  []string
	}{
		{second, "refund", []string{"weather:alerts"}}, {second, "reimburse", []string{"stripe:reimburse"}},
		{first, "refund", []string{"stripe:refund_payment"}}, {first, "reimburse", nil},
	} {
		if got := names(search(t, x, step.r, help.Query{Words: step.query})); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, wanted %v", step.query, got, step.want)
		}
	}
}

// TestSentences checks that a query of several sentences finds the tool for each of them first.
func TestSentences(t *testing.T) {
	r := register(t, load(t))
	x := new(help.Index)
	for query, want := range map[string][]string{
		"Bill a customer. Capture the page as an image.":                                {"browser:screenshot", "stripe:create_invoice"},
		"Cancel the event!\nPlease. Create issue":                                       {"calendar:delete_event", "github:create_issue"},
		"Answer in a thread?   Open web page":                                           {"browser:navigate", "slack:post_message"},
		"archive\nsend a message to the team channel":                                   {"files:compress", "slack:post_message"},
		"Bill a customer. " + strings.Repeat("Of the. ", 30) + "Screenshot of the page": {"browser:screenshot", "stripe:create_invoice"},
	} {
		got := names(search(t, x, r, help.Query{Words: query, Limit: 2}))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%.50s: %v, wanted %v", query, got, want)
		}
	}
	if a := search(t, x, registry.New(), help.Query{Words: "One tool. Another tool. No tool."}); a.Hits != nil {
		t.Errorf("without tools: %v", names(a))
	}
}

// TestNumbers checks that the words one and two are searched.
func TestNumbers(t *testing.T) {
	r := registry.New()
	for name, text := range map[string]string{"get-sum": "Returns the sum of two numbers", "add_observations": "Add new observations to existing entities", "read": "Reads a number of lines", "page": "Shows the page with a number"} {
		d := tool.Definition{Name: name, Description: text, Input: json.RawMessage(`{"type":"object"}`)}
		if err := r.Add("p"+name, "", &tool.Description{Tools: []tool.Definition{d}}, false, func(string) registry.Settings { return registry.Settings{} }); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(search(t, new(help.Index), r, help.Query{Words: "add two numbers"})); len(got) == 0 || got[0] != "get-sum" {
		t.Error(got)
	}
}

// TestExplain checks that an explanation contains the parts of a definition that match the words of the query, also in
// another word form.
func TestExplain(t *testing.T) {
	x := new(help.Index)
	a := search(t, x, register(t, load(t)), help.Query{Words: "closed issues billing", Limit: 1, Explain: true})
	want := `[{name [issues]} {summary [issues]} {choices [closed]}]`
	if got := fmt.Sprint(a.Hits[0].Matches); got != want {
		t.Errorf("%s: %s", a.Hits[0].Tool.FullName(), got)
	}
}

// TestKeywords checks that a tool is found by the keywords of its definition and of the operator. A keyword counts even
// if it is one of the words that searches omit.
func TestKeywords(t *testing.T) {
	r := registry.New()
	for _, d := range []tool.Definition{
		{Name: "write", Description: "Write a file.", Keywords: []string{"make", "createFile"}},
		{Name: "notebook_edit", Description: "Change a cell of a notebook."},
		{Name: "edit", Description: "Replace a text by another one, in one of the files.", Keywords: []string{"change", "file"}},
		{Name: "use", Description: "Load a module."},
	} {
		d.Input = json.RawMessage(`{"type":"object"}`)
		if err := r.Add("p"+d.Name, "", &tool.Description{Tools: []tool.Definition{d}}, false, func(string) registry.Settings {
			return registry.Settings{Keywords: []string{"own" + d.Name[:3]}}
		}); err != nil {
			t.Fatal(err)
		}
	}
	x := new(help.Index)
	for query, want := range map[string]string{
		"make a file": "write", "make": "write", "create_file": "write", "change a file": "edit", "edit": "edit", "use it": "use", "ownuse": "use", "ownedi": "edit", "Changing files": "edit",
	} {
		if got := names(search(t, x, r, help.Query{Words: query})); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %v, wanted %s first", query, got, want)
		}
	}
	if a := search(t, x, r, help.Query{Words: "could you please"}); a.Hits != nil {
		t.Errorf("words of no tool find %v", names(a))
	}
}
