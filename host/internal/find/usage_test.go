package find_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/find"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sdk/tool"
)

// learner is an index that learns, with a clock that the test sets.
type learner struct {
	*find.Index
	r   *registry.Registry
	now time.Time
}

func newLearner(t *testing.T, db *state.DB) *learner {
	t.Helper()
	l := &learner{Index: new(find.Index), r: register(t, load(t)), now: time.Unix(1_000_000_000, 0)}
	l.Usage = &find.Usage{State: db, Log: slog.Default(), Now: func() time.Time { return l.now }}
	return l
}

func openState(t *testing.T, dir string) *state.DB {
	t.Helper()
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func caller(workspace, principal, session string) find.Caller {
	return find.Caller{UsageScope: state.UsageScope{Workspace: workspace, Principal: principal}, Session: session}
}

// first returns the best tool for a query. The query has no session, so it is not recorded.
func (l *learner) first(t *testing.T, who find.Caller, query string) find.Hit {
	t.Helper()
	who.Session = ""
	a := search(t, l.Index, l.r, find.Query{Words: query, Caller: who, Explain: true})
	if len(a.Hits) == 0 {
		t.Fatalf("%q finds nothing", query)
	}
	return a.Hits[0]
}

// The best tools for the query "issues" with and without learned usage.
const wanted, before = "github:add_issue_comment", "github:list_issues"

// TestUsage checks the effect of a call after a search. For some time, the same words must find the called tool first,
// but only for the same principal in the same workspace.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	l := newLearner(t, openState(t, dir))
	alice := caller("/w", "alice", "s")
	rank := func(who find.Caller, want string) {
		t.Helper()
		if got := l.first(t, who, "issues").Tool.FullName(); got != want {
			t.Errorf("%+v: %s, wanted %s", who.UsageScope, got, want)
		}
	}
	rank(alice, before)
	l.Usage.Called(alice, wanted)
	rank(alice, before)
	search(t, l.Index, l.r, find.Query{Words: "issues", Caller: alice})
	l.Usage.Called(caller("/w", "alice", "other session"), wanted)
	l.Usage.Called(caller("/w", "bob", "s"), wanted)
	l.now = l.now.Add(state.SearchWindow + time.Second)
	l.Usage.Called(alice, wanted)
	rank(alice, before)
	search(t, l.Index, l.r, find.Query{Words: "issues", Caller: alice})
	l.now = l.now.Add(state.SearchWindow - time.Second)
	l.Usage.Called(alice, wanted)
	rank(alice, wanted)
	one := l.first(t, alice, "issues")
	l.Usage.Called(alice, wanted)
	if again := l.first(t, alice, "issues"); again.Score != one.Score || one.Usage <= 0 || !slices.Equal(one.UsageWords, []string{"issu"}) {
		t.Errorf("a second call after the same search: %+v, %+v", one, again)
	}
	search(t, l.Index, l.r, find.Query{Words: "thumbs up emoji", Caller: alice})
	search(t, l.Index, l.r, find.Query{Words: "columns", Caller: alice})
	l.Usage.Called(alice, "slack:add_reaction")
	if h := l.first(t, alice, "emoji"); h.Usage == 0 {
		t.Error("an answer before the last search is not learned")
	}
	l.Usage.Called(alice, "postgres:query")
	for query, used := range map[string]bool{"columns": true, "emoji": false} {
		a := search(t, l.Index, l.r, find.Query{Words: query + " select rows", Caller: caller("/w", "alice", ""), Limit: find.MaxLimit})
		if i := slices.Index(names(a), "postgres:query"); i < 0 || (a.Hits[i].Usage > 0) != used {
			t.Errorf("words of the search %q: %v", query, a.Hits)
		}
	}
	rank(caller("/w", "bob", "s"), before)
	rank(caller("/other", "alice", "s"), before)
	for range 100 {
		search(t, l.Index, l.r, find.Query{Words: "issues", Caller: alice})
		l.Usage.Called(alice, wanted)
		l.now = l.now.Add(time.Millisecond)
	}
	if h := l.first(t, alice, "issues"); h.Usage > h.Score/2 || h.Usage < h.Score/3 {
		t.Errorf("usage is %.2f of %.2f", h.Usage, h.Score)
	}
	if got := l.first(t, alice, "weather alert").Tool.FullName(); got != "weather:alerts" {
		t.Errorf("a query with other words: %s", got)
	}
	a := l.Search(l.r, func(e *registry.Entry) bool { return e.FullName() != wanted }, find.Query{Words: "issues", Caller: alice, Limit: find.MaxLimit})
	if slices.Contains(names(a), wanted) {
		t.Errorf("a tool that the caller may no longer call is found: %v", names(a))
	}
	l.now = l.now.Add(20 * state.WordHalfLife)
	rank(alice, before)
}

// TestUsageOfProcesses checks that a call is related to the last search of its session, even if another process made
// the search.
func TestUsageOfProcesses(t *testing.T) {
	dir := t.TempDir()
	one, two, three := newLearner(t, openState(t, dir)), newLearner(t, openState(t, dir)), newLearner(t, openState(t, dir))
	who := caller("/w", "", "workspace:/w")
	search(t, one.Index, one.r, find.Query{Words: "issues", Caller: who})
	two.now = two.now.Add(time.Minute)
	two.Usage.Called(who, wanted)
	if got := one.first(t, who, "issues").Tool.FullName(); got != wanted {
		t.Error(got)
	}
	three.now = three.now.Add(state.SearchWindow + time.Second)
	three.Usage.Called(who, before)
	if got := one.first(t, who, "issues").Tool.FullName(); got != wanted {
		t.Errorf("after a late call: %s", got)
	}
}

// TestForget checks that the usage of single words and of whole workspaces can be forgotten.
func TestForget(t *testing.T) {
	db := openState(t, t.TempDir())
	l := newLearner(t, db)
	learn := func(workspace, query string) {
		who := caller(workspace, "alice", "s"+query)
		search(t, l.Index, l.r, find.Query{Words: query, Caller: who})
		l.Usage.Called(who, "github:list_issues")
	}
	usage := func(workspace, query string) bool {
		who := caller(workspace, "alice", "")
		a := search(t, l.Index, l.r, find.Query{Words: query, Caller: who, Limit: find.MaxLimit})
		return slices.ContainsFunc(a.Hits, func(h find.Hit) bool { return h.Usage > 0 })
	}
	for _, workspace := range []string{"/a", "/b"} {
		learn(workspace, "issues")
		learn(workspace, "closed labels")
	}
	if n, err := db.ForgetWords("/a", find.Stems("the ISSUE")); err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	if usage("/a", "issues") || !usage("/a", "closed") || !usage("/b", "issues") {
		t.Error("forgetting a word forgets too little or too much")
	}
	if n, err := db.ForgetWords("/a", nil); err != nil || n != 2 {
		t.Errorf("%d %v", n, err)
	}
	if usage("/a", "closed") || !usage("/b", "closed") {
		t.Error("forgetting a workspace forgets too little or too much")
	}
}

// TestLearnedWords checks that the state contains only stems of words, and no secrets or values from queries.
func TestLearnedWords(t *testing.T) {
	dir := t.TempDir()
	db := openState(t, dir)
	db.Mask(state.Masking{Command: func(s string) string { return strings.ReplaceAll(s, "masksecret", "***") }})
	l := newLearner(t, db)
	for query, want := range map[string]string{
		"creating an issue about GitHub":                                                 "creat git github hub issu",
		"listPullRequests for list_issues":                                               "issu list listpullrequest pull request",
		"log in with password swordfish":                                                 "log password",
		"the token is swordfish, list issues":                                            "issu list token",
		"password=swordfish issues":                                                      "",
		"API key: swordfish create issue":                                                "creat issu",
		`say "swordfish" in 'sword fish' or “swordfish” don't issue`:                     "issu say",
		"open https://user:swordfish@example.com/x /home/swordfish me@swordfish.example": "open",
		"use AKIA1SWORDFISH and hunter2 42 sw0rdfish on issues":                          "issu",
		"masksecret issues":                                                              "issu",
		"swordfishswordfishswordfish issues":                                             "issu",
		"aSwOrDfIsH issues":                                                              "issu",
	} {
		if got := strings.Join(find.Stems(db.MaskCommand(query)), " "); got != want {
			t.Errorf("%s: %q, wanted %q", query, got, want)
		}
		who := caller("/w", "alice", fmt.Sprint("s", len(query)))
		search(t, l.Index, l.r, find.Query{Words: query, Caller: who})
		l.Usage.Called(who, wanted)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "state.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"swordfish", "masksecret", "hunter2"} {
			if strings.Contains(strings.ToLower(string(b)), secret) {
				t.Errorf("%s has %s", f, secret)
			}
		}
	}
}

// TestIdentifiers checks that a query finds the same tool in whichever style the tool's name and the query are written.
func TestIdentifiers(t *testing.T) {
	forms := map[string]func(parts []string) string{
		"snake":  func(p []string) string { return strings.Join(p, "_") },
		"kebab":  func(p []string) string { return strings.Join(p, "-") },
		"upper":  func(p []string) string { return strings.ToUpper(strings.Join(p, "_")) },
		"words":  func(p []string) string { return strings.Join(p, " ") },
		"pascal": pascal,
		"camel":  func(p []string) string { return p[0] + pascal(p[1:]) },
	}
	plain := load(t)
	for _, name := range []string{"start_http_server", "list_user_ids", "get_v2_key"} {
		plain = append(plain, labelled{Namespace: "net", Name: name, Description: "Serve.", Input: []byte(`{"type":"object"}`)})
	}
	for name, tools := range forms {
		if name == "words" {
			continue
		}
		r, x := registry.New(), new(find.Index)
		original := make(map[string]string)
		for _, l := range plain {
			origin := l.Name
			l.OriginalName = tools(strings.Split(l.Name, "_"))
			l.Name = tool.NameOf(l.OriginalName)
			original[full(l.Namespace, l.Name)] = full(l.Namespace, origin)
			add(t, r, l)
		}
		for _, l := range plain {
			for form, write := range forms {
				want := full(l.Namespace, l.Name)
				if got := names(search(t, x, r, find.Query{Words: write(strings.Split(l.Name, "_")), Limit: 1})); len(got) == 0 || original[got[0]] != want {
					t.Errorf("tools in %s, query in %s: %v, wanted %s", name, form, got, want)
				}
			}
			offered := tool.NameOf(tools(strings.Split(l.Name, "_"))) // the name in the form that lists of tools contain
			if got := names(search(t, x, r, find.Query{Words: offered, Limit: 1})); len(got) == 0 || original[got[0]] != full(l.Namespace, l.Name) {
				t.Errorf("tools in %s: the name %s finds %v", name, offered, got)
			}
		}
		for query, want := range map[string]string{
			"HTTPServer": "net:start_http_server", "startHTTPServer": "net:start_http_server", "listUserIDs": "net:list_user_ids", "userIDs": "net:list_user_ids",
			"V2Key": "net:get_v2_key", "createGitHubIssue": "github:create_issue",
		} {
			if got := names(search(t, x, r, find.Query{Words: query, Limit: 1})); len(got) == 0 || original[got[0]] != want {
				t.Errorf("tools in %s, query %s: %v, wanted %s", name, query, got, want)
			}
		}
		for _, query := range []string{"GitHub", "github"} {
			if got := fmt.Sprint(names(search(t, x, r, find.Query{Words: query, Limit: 3}))); strings.Count(got, "github:") != 3 {
				t.Errorf("tools in %s, query %s: %s", name, query, got)
			}
		}
	}
}

func full(namespace, name string) string { return strings.TrimPrefix(namespace+":"+name, ":") }

func pascal(parts []string) (out string) {
	for _, p := range parts {
		out += strings.ToUpper(p[:1]) + p[1:]
	}
	return out
}

// BenchmarkSearch measures the median time of the labelled queries in a registry with many tools, for each of which
// usage is recorded.
func BenchmarkSearch(b *testing.B) {
	var base []labelled
	read(b, &base)
	text, err := os.ReadFile(filepath.Join("testdata", "queries.txt"))
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, n := range []int{1000, 10_000} {
		r := registry.New()
		for i := range n {
			l := base[i%len(base)]
			l.Namespace = fmt.Sprintf("%s%d", l.Namespace, i/len(base))
			add(b, r, l)
		}
		for _, uses := range []bool{false, true} {
			b.Run(fmt.Sprintf("tools=%d/usage=%v", n, uses), func(b *testing.B) {
				db, err := state.Open(b.TempDir(), slog.New(slog.DiscardHandler))
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				x := &find.Index{Usage: &find.Usage{State: db}}
				who := caller("/w", "alice", "s")
				find := func(i int, session string) *find.Answer {
					who := who
					who.Session = session
					return x.Search(r, everything, find.Query{Words: strings.Split(lines[i%len(lines)], " | ")[1], Caller: who})
				}
				for i := range lines {
					if a := find(i, fmt.Sprint(i)); uses && len(a.Hits) > 2 {
						who := who
						who.Session = fmt.Sprint(i)
						x.Usage.Called(who, a.Hits[2].Tool.FullName())
					}
				}
				var times []time.Duration
				for b.Loop() {
					at := time.Now()
					find(len(times), "s")
					times = append(times, time.Since(at))
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}
