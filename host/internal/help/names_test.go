package help_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

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
		r, x := registry.New(), new(help.Index)
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
				if got := names(search(t, x, r, help.Query{Words: write(strings.Split(l.Name, "_")), Limit: 1})); len(got) == 0 || original[got[0]] != want {
					t.Errorf("tools in %s, query in %s: %v, wanted %s", name, form, got, want)
				}
			}
			offered := tool.NameOf(tools(strings.Split(l.Name, "_"))) // the name in the form that lists of tools contain
			if got := names(search(t, x, r, help.Query{Words: offered, Limit: 1})); len(got) == 0 || original[got[0]] != full(l.Namespace, l.Name) {
				t.Errorf("tools in %s: the name %s finds %v", name, offered, got)
			}
		}
		for query, want := range map[string]string{
			"HTTPServer": "net:start_http_server", "startHTTPServer": "net:start_http_server", "listUserIDs": "net:list_user_ids", "userIDs": "net:list_user_ids",
			"V2Key": "net:get_v2_key", "createGitHubIssue": "github:create_issue",
		} {
			if got := names(search(t, x, r, help.Query{Words: query, Limit: 1})); len(got) == 0 || original[got[0]] != want {
				t.Errorf("tools in %s, query %s: %v, wanted %s", name, query, got, want)
			}
		}
		for _, query := range []string{"GitHub", "github"} {
			if got := fmt.Sprint(names(search(t, x, r, help.Query{Words: query, Limit: 3}))); strings.Count(got, "github:") != 3 {
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

// BenchmarkSearch measures the median time of the labelled queries in a registry with many tools.
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
		b.Run(fmt.Sprintf("tools=%d", n), func(b *testing.B) {
			x := new(help.Index)
			var times []time.Duration
			for b.Loop() {
				at := time.Now()
				x.Search(r, everything, help.Query{Words: strings.Split(lines[len(times)%len(lines)], " | ")[1]})
				times = append(times, time.Since(at))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		})
	}
}
