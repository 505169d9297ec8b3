// Package find searches the definitions of tools. [Index.Search] ranks the tools of a registry by the words of a query.
//
// The index is a full-text index of SQLite in memory. It is built at the first search, and a later search updates it if
// the registry changed.
package find

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/statedb"
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
	// Caller is who searches.
	Caller Caller
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
	// Usage is the part of the score that comes from earlier calls of the tool, at most a half. UsageWords lists the
	// stems of the query after which the tool was called.
	Usage      float64
	UsageWords []string
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
	// Usage learns from searches and calls. Nil means that nothing is learned.
	Usage *Usage

	mu     sync.Mutex
	db     *sql.DB
	of     *registry.Registry
	rows   map[string]*row // by the full name of the tool
	byID   map[int64]*row
	last   int64
	closed bool
}

// row is an indexed tool.
type row struct {
	id   int64
	sum  [sha256.Size]byte
	tool *registry.Entry
}

// Search returns the best tools for a query among the enabled tools for which the function "allowed" returns true.
func (x *Index) Search(ctx context.Context, r *registry.Registry, allowed func(*registry.Entry) bool, q Query) (*Answer, error) {
	ws := prose(firstCharacters(q.Words, MaxQuery))
	if len(ws) == 0 {
		return &Answer{Namespaces: Namespaces(r, allowed)}, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.update(ctx, r); err != nil {
		return nil, fmt.Errorf("the tools cannot be searched: %w", err)
	}
	var stems []string
	if x.Usage != nil {
		var err error
		if stems, err = x.stems(ctx, learnable(x.Usage.State.MaskCommand(q.Words))); err != nil {
			return nil, fmt.Errorf("the tools cannot be searched: %w", err)
		}
	}
	hits, err := x.search(ctx, match("", ws), allowed, q, x.Usage.weigh(q.Caller, stems))
	x.Usage.searched(q.Caller, stems, hits)
	if err == nil && q.Explain {
		err = x.explain(ctx, hits, ws)
	}
	if err != nil {
		return nil, fmt.Errorf("the tools cannot be searched: %w", err)
	}
	out := &Answer{Hits: hits}
	if len(hits) == 0 {
		out.Namespaces = nearest(Namespaces(r, allowed), ws)
	}
	return out, nil
}

// Close releases the index. Later searches return an error.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.db == nil {
		return nil
	}
	return x.db.Close()
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

// update makes the index contain the tools of a registry. It only writes the tools whose definitions changed.
func (x *Index) update(ctx context.Context, r *registry.Registry) error {
	if x.closed {
		return errors.New("the host is closed")
	}
	if x.of == r {
		return nil
	}
	if err := x.open(ctx); err != nil {
		return err
	}
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	insert, err := tx.PrepareContext(ctx, sqlOf().insert)
	if err != nil {
		return err
	}
	defer insert.Close() //nolint:errcheck // the transaction ends
	rows, byID, last := make(map[string]*row), make(map[int64]*row), x.last
	for _, e := range r.All() {
		name, sum := e.FullName(), fingerprint(e)
		next := &row{sum: sum, tool: e}
		rows[name] = next
		if old := x.rows[name]; old != nil && old.sum == sum {
			next.id = old.id
			byID[next.id] = next
			continue
		}
		last++
		next.id = last
		byID[next.id] = next
		values := []any{next.id, e.Namespace}
		for _, column := range document(e) {
			values = append(values, strings.Join(column, " "))
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	for id := range x.byID {
		if byID[id] == nil {
			if _, err := tx.ExecContext(ctx, `DELETE FROM tools WHERE rowid = ?`, id); err != nil {
				return err
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	x.of, x.rows, x.byID, x.last = r, rows, byID, last
	return nil
}

// statements contains the SQL of an index: one creates the table, one inserts a tool, and one selects tools. The tokenizer
// "porter" removes the endings of English words.
type statements struct{ layout, insert, find string }

var sqlOf = sync.OnceValue(func() (out statements) {
	var names, marks, weights []string
	for _, c := range columns {
		names, marks = append(names, c.name), append(marks, "?")
		weights = append(weights, fmt.Sprint(c.weight))
	}
	list := strings.Join(names, ", ")
	out.layout = `CREATE VIRTUAL TABLE tools USING fts5(ns UNINDEXED, ` + list + `, tokenize = 'porter unicode61')`
	out.insert = `INSERT INTO tools (rowid, ns, ` + list + `) VALUES (?, ?, ` + strings.Join(marks, ", ") + `)`
	out.find = `SELECT rowid, -bm25(tools, 0, ` + strings.Join(weights, ", ") + `) AS score FROM tools WHERE tools MATCH ?1 AND (?2 = '' OR ns = ?2) ORDER BY score DESC, rowid`
	return out
})

// The method "open" creates the database.
func (x *Index) open(ctx context.Context) (err error) {
	if x.db == nil {
		x.db, err = statedb.Open(ctx, "", []string{sqlOf().layout, `CREATE VIRTUAL TABLE stemmed USING fts5(words, tokenize = 'porter unicode61');
			CREATE VIRTUAL TABLE stems USING fts5vocab(stemmed, 'row')`})
	}
	return err
}

// fingerprint identifies the text of a tool in the index.
func fingerprint(e *registry.Entry) [sha256.Size]byte {
	b, _ := json.Marshal([]any{e.Definition.OriginalName, e.Definition.Description, string(e.Definition.Input), e.Keywords}) // error ignored: texts can always be encoded
	return sha256.Sum256(b)
}

// match returns the expression for tools that contain at least one of the words. An empty column means every column.
func match(column string, ws []string) string {
	quoted := make([]string, len(ws))
	for i, w := range ws {
		quoted[i] = `"` + w + `"`
	}
	slices.Sort(quoted)
	out := strings.Join(slices.Compact(quoted), " OR ")
	if column != "" {
		out = "{" + column + "} : (" + out + ")"
	}
	return out
}

// The method "search" returns the best tools. The database ranks by words alone, and usage adds at most the same score
// again. So the search ends when no further tool can be among the best.
func (x *Index) search(ctx context.Context, expression string, allowed func(*registry.Entry) bool, q Query, usage map[string]*learned) (hits []Hit, err error) {
	limit := min(q.Limit, MaxLimit)
	if limit <= 0 {
		limit = DefaultLimit
	}
	found, err := x.db.QueryContext(ctx, sqlOf().find, expression, q.Namespace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	used := 0
	for found.Next() {
		var id int64
		var score float64
		if err := found.Scan(&id, &score); err != nil {
			return nil, err
		}
		if len(hits) >= limit && (used == len(usage) || 2*score < hits[limit-1].Score) {
			break
		}
		r := x.byID[id]
		if r == nil || !r.tool.Enabled || !allowed(r.tool) {
			continue
		}
		l := usage[r.tool.FullName()]
		if l != nil {
			used++
		}
		if len(hits) < limit || l != nil {
			hits = append(hits, Hit{Tool: r.tool, Score: score})
		}
	}
	rerank(hits, usage)
	return hits[:min(len(hits), limit)], found.Err()
}

// explain adds the words that each part of a hit's definition contains.
func (x *Index) explain(ctx context.Context, hits []Hit, ws []string) error {
	for i := range hits {
		id := x.rows[hits[i].Tool.FullName()].id
		for _, c := range columns {
			m := Match{In: c.name}
			for _, w := range ws {
				var n int
				err := x.db.QueryRowContext(ctx, `SELECT count(*) FROM tools WHERE tools MATCH ? AND rowid = ?`, match(c.name, []string{w}), id).Scan(&n)
				if err != nil {
					return err
				}
				if n > 0 && !slices.Contains(m.Words, w) {
					m.Words = append(m.Words, w)
				}
			}
			if m.Words != nil {
				hits[i].Matches = append(hits[i].Matches, m)
			}
		}
	}
	return nil
}

// Namespace describes a field namespace.
type Namespace struct {
	Name string
	// Tools lists the names of the tools in the namespace.
	Tools []string
}

// Namespaces returns the namespaces with the enabled tools for which the function "allowed" returns true, in the order of
// the registry. It omits namespaces without such tools.
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

// nearest returns the namespaces whose name or tools resemble a word. It adds the largest namespaces if fewer than three
// resemble a word.
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
