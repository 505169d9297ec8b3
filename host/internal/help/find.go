package help

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/registry"
)

// Limits of a query.
const (
	MaxQuery     = 2000 // in characters; the rest is ignored
	MaxLimit     = 50
	DefaultLimit = 5
)

// Query selects tools.
type Query struct {
	// Words describes the wanted tools. An empty query lists the namespaces.
	Words string
	// Namespace restricts the search to the tools of a field namespace. Empty means all tools.
	Namespace string
	// Limit is the maximum number of tools in the answer. Zero means DefaultLimit.
	Limit int
	// Explain adds to each hit the parts of the definition that contain the words.
	Explain bool
}

// Answer is the result of a search.
type Answer struct {
	Hits []Hit
	// Namespaces lists all namespaces after an empty query. After a query without hits, it lists the nearest ones.
	Namespaces []Namespace
}

// Hit is a tool that matches a query.
type Hit struct {
	Tool *registry.Entry
	// Score increases with the rank. Scores of different queries cannot be compared.
	Score float64
	// Matches lists the words in each part of the definition, if the query asks for an explanation.
	Matches []Match
}

// Match lists the words of a query that one part of a definition contains.
type Match struct {
	In    string   `json:"in"`
	Words []string `json:"words"`
}

// Index is a search index. The zero value is an empty index. It is safe for concurrent use.
type Index struct {
	mu    sync.Mutex
	table *table
}

// Search returns the best tools for a query among the enabled tools for which the function "allowed" returns true.
func (x *Index) Search(r *registry.Registry, allowed func(*registry.Entry) bool, q Query) *Answer {
	t := x.update(r)
	ws := t.asked(q.Words)
	if len(ws) == 0 {
		return &Answer{Namespaces: Namespaces(r, allowed)}
	}
	hits := t.search(allowed, q)
	if q.Explain {
		for i := range hits {
			hits[i].Matches = t.byName[hits[i].Tool.FullName()].explain(ws)
		}
	}
	out := &Answer{Hits: hits}
	if len(hits) == 0 {
		out.Namespaces = nearest(Namespaces(r, allowed), ws)
	}
	return out
}

func firstCharacters(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// update returns a table of the tools of a registry.
func (x *Index) update(r *registry.Registry) *table {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.table == nil || x.table.of != r {
		x.table = newTable(r, x.table)
	}
	return x.table
}

// fingerprint identifies the text of a tool in the index.
func fingerprint(e *registry.Entry) [sha256.Size]byte {
	d := &e.Definition
	b, _ := json.Marshal([]any{d.OriginalName, d.Description, string(d.Input), d.Keywords, e.Keywords}) // error ignored: texts can always be encoded
	return sha256.Sum256(b)
}

// search returns the best tools.
func (t *table) search(allowed func(*registry.Entry) bool, q Query) (hits []Hit) {
	limit := min(q.Limit, MaxLimit)
	if limit <= 0 {
		limit = DefaultLimit
	}
	for _, r := range t.rank(q.Words) {
		if len(hits) == limit {
			break
		}
		if (q.Namespace == "" || r.tool.Namespace == q.Namespace) && r.tool.Enabled && allowed(r.tool) {
			hits = append(hits, Hit{Tool: r.tool, Score: r.score})
		}
	}
	return hits
}

// explain returns the words that each part of the definition contains.
func (d *document) explain(ws []string) (out []Match) {
	for i, c := range columns {
		m := Match{In: c.name}
		for _, w := range ws {
			if n := d.words[stem(w)]; n != nil && n[i] > 0 && !slices.Contains(m.Words, w) {
				m.Words = append(m.Words, w)
			}
		}
		if m.Words != nil {
			out = append(out, m)
		}
	}
	return out
}

// Namespace describes a field namespace.
type Namespace struct {
	Name string
	// Tools lists the names of the tools in the namespace.
	Tools []string
}

// Namespaces returns the namespaces with the enabled tools for which the function "allowed" returns true, in the order
// of the registry. It omits namespaces without such tools.
func Namespaces(r *registry.Registry, allowed func(*registry.Entry) bool) []Namespace {
	var out []Namespace
	at := make(map[string]int)
	for _, e := range r.All() {
		if e.Namespace == "" || !e.Enabled || !allowed(e) {
			continue
		}
		i, known := at[e.Namespace]
		if !known {
			i = len(out)
			at[e.Namespace] = i
			out = append(out, Namespace{Name: e.Namespace})
		}
		out[i].Tools = append(out[i].Tools, e.Definition.Name)
	}
	return out
}

// maxNearest is the number of namespaces that nearest returns.
const maxNearest = 3

// nearest returns the namespaces whose name or tools resemble a word. It adds the largest namespaces if fewer than
// three resemble a word.
func nearest(all []Namespace, ws []string) []Namespace {
	best := func(n Namespace) int {
		least := 1 << 30
		for _, word := range append(words(n.Name), words(strings.Join(n.Tools, " "))...) {
			for _, w := range ws[:min(len(ws), 20)] {
				if d := suggest.Distance(w, word); 2*d < len(w) {
					least = min(least, d)
				}
			}
		}
		return least
	}
	distance := make(map[string]int, len(all))
	for _, n := range all {
		distance[n.Name] = best(n)
	}
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Namespace) int {
		if d := distance[a.Name] - distance[b.Name]; d != 0 {
			return d
		}
		return len(b.Tools) - len(a.Tools)
	})
	return out[:min(len(out), maxNearest)]
}
