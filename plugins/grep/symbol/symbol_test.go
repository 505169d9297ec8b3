package symbol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/content"
)

// table returns a table of symbols whose offsets differ by ten bytes. Each argument has the form "Container Name" or
// "Name".
func table(names ...string) *Table {
	var out []Symbol
	for i, name := range names {
		container, name, ok := strings.Cut(name, " ")
		if !ok {
			container, name = "", container
		}
		line := int32(i + 1)                                                                                                                     // #nosec G115 -- a small number
		out = append(out, Symbol{Name: name, Container: container, Kind: Function, Line: line, Column: 1, EndLine: line, Offset: 10 * int32(i)}) // #nosec G115 -- a small number
	}
	return NewTable(GoParser, out)
}

func find(t *testing.T, query string, m Match, tab *Table, file string, parts func() []content.Part) (out []string) {
	t.Helper()
	q, err := Parse(query, m)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	matcher := q.Matcher(t.Context())
	err = matcher.Table(tab, All, file, parts, func(i int, r Rank) { out = append(out, fmt.Sprintf("%d %s", r, tab.Symbols[i].Name)) })
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 0 && !matcher.MayHave(tab) {
		t.Errorf("%s: the signature says that it is not there", query)
	}
	return out
}

func TestNames(t *testing.T) {
	names := []string{"get", "Get", "getUser", "forget", "Server Close", "net.Server close", "Box[T] Close", "größe", "İstanbul", "operator==", "~Box", "a_b", "x"}
	for range 400 { // tables with this many symbols do not use signatures
		names = append(names, "zzz")
	}
	large := table(names...)
	large.Package = "pkg"
	small := table(names[:13]...)
	small.Package = "pkg"
	for _, c := range []struct {
		query string
		match Match
		file  string
		want  []string
	}{
		{"get", Ranked, "", []string{"0 get", "1 Get", "2 getUser", "3 forget"}},
		{"get", ExactOnly, "", []string{"0 get", "1 Get"}},
		{"GET", Prefix, "", []string{"1 get", "1 Get", "2 getUser"}},
		{"get()", ExactOnly, "", []string{"0 get", "1 Get"}},
		{"Server.Close", Ranked, "", []string{"0 Close", "1 close"}},
		{"net::Server::close", Ranked, "", []string{"0 close"}},
		{"Box#close", Ranked, "", []string{"1 Close"}},
		{"pkg.get", ExactOnly, "", []string{"0 get", "1 Get"}},
		{"store.get", ExactOnly, "lib/store.py", []string{"0 get", "1 Get"}},
		{"store.get", ExactOnly, "store/x.py", []string{"0 get", "1 Get"}},
		{"other.get", ExactOnly, "lib/store.py", nil},
		{"wrong.Server.close", Ranked, "", nil},
		{"g*", Ranked, "", []string{"4 get", "4 Get", "4 getUser", "4 größe"}},
		{"?et", Ranked, "", []string{"4 get", "4 Get"}},
		{"{for,}get", Ranked, "", []string{"4 get", "4 Get", "4 forget"}},
		{"[!g]*get", Ranked, "", []string{"4 forget"}},
		{"/^get/", Ranked, "", []string{"4 get", "4 getUser"}},
		{"/^get$/i", Ranked, "", []string{"4 get", "4 Get"}},
		{"GRÖSSE", Ranked, "", nil},
		{"GRÖßE", Ranked, "", []string{"1 größe"}},
		{"istanbul", Ranked, "", []string{"1 İstanbul"}},
		{"operator==", Ranked, "", []string{"0 operator=="}},
		{"~Box", Ranked, "", []string{"0 ~Box"}},
		{"x", ExactOnly, "", []string{"0 x"}},
		{"nothing", Ranked, "", nil},
	} {
		for size, tab := range map[string]*Table{"small": small, "large": large} {
			if got := find(t, c.query, c.match, tab, c.file, nil); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s table: %q, want %q", c.query, size, got, c.want)
			}
		}
	}
	if got := find(t, "*", Ranked, small, "", nil); len(got) != 13 {
		t.Errorf("all: %q", got)
	}
	part := func() []content.Part { return []content.Part{{From: 5, To: 30}, {From: 35, To: 40}} }
	if got := find(t, "get", Ranked, large, "", part); !slices.Equal(got, []string{"1 Get", "2 getUser"}) {
		t.Errorf("in parts: %q", got)
	}
	if got := find(t, "/get/i", Ranked, large, "", part); !slices.Equal(got, []string{"4 Get", "4 getUser"}) {
		t.Errorf("an expression in parts: %q", got)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		query, path string
		want        Rank
		ok          bool
	}{
		{"server", "a/server.go", Exact, true},
		{"server.go", "a/server.go", Exact, true},
		{"Server.GO", "a/server.go", Folded, true},
		{"serv", "a/server.go", Prefixed, true},
		{"rver", "a/server.go", Inside, true},
		{"a/server", "x/a/server.go", Inside, true},
		{"a/server.go", "x/a/server.go", Exact, true},
		{"a/server.go", "b/server.go", none, false},
		{"*.go", "a/server.go", Matched, true},
		{"s*.py", "a/server.go", Matched, false},
		{"server.*", "a/server.go", Matched, true},
		{"a/*.go", "a/server.go", Matched, true},
		{"/^server/", "a/server.go", Matched, true},
		{"a", "a/server.go", none, false},
	} {
		q, err := Parse(c.query, Ranked)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := q.Matcher(t.Context()).Path(c.path); ok != c.ok || ok && r != c.want {
			t.Errorf("%s in %s: %v %t", c.query, c.path, r, ok)
		}
	}
}

func TestGroups(t *testing.T) {
	for k := Function; k <= File; k++ {
		in := 0
		for _, g := range []Group{Functions, Classes, Variables, Files} {
			if g.Has(k) {
				in++
			}
		}
		if in != 1 || !All.Has(k) || k.String() == "" {
			t.Errorf("%s is in %d groups", k, in)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"a.b", "get*", "/x/i", "[", "{a", "::", "operator()", "a b", "/(/", "é*"} {
		f.Add(q)
	}
	tab := table("get", "Server Close", "é", "a")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := Parse(query, Ranked)
		if err != nil {
			return
		}
		m := q.Matcher(t.Context())
		_ = m.Table(tab, All, "dir/file.go", nil, func(i int, _ Rank) {
			if i < 0 || i >= len(tab.Symbols) {
				t.Errorf("symbol %d", i)
			}
		})
		m.Path("dir/file.go")
		m.MayDeclare([]byte("get\nServer.Close"))
	})
}
