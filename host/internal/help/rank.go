package help

import (
	"cmp"
	"crypto/sha256"
	"math"
	"regexp"
	"slices"

	"toolhost.dev/host/internal/registry"
)

// column is a part of a tool's definition. The weight is its share of the rank. The norm determines how much a word
// counts less in a column that is longer than usual: not at all with 0, and in proportion to the length with 1.
type column struct {
	name         string
	weight, norm float64
}

// columns lists the columns of the index. The weights and norms were tuned on public sets of labelled calls; see ADR
// 23.
var columns = [...]column{
	{"name", 4, 0.8}, {"namespace", 1.2, 0.5}, {"summary", 2, 0.9}, {"description", 1.5, 0.5}, {"parameters", 1, 0.5},
	{"parameter_texts", 1, 0.6}, {"choices", 1.5, 0.4}, {"keywords", 4, 0},
}

// saturation determines how fast further occurrences of a word lose weight. It is the parameter k1 of BM25.
const saturation = 1.9

// document contains the words of an indexed tool.
type document struct {
	sum   [sha256.Size]byte
	tool  *registry.Entry
	words map[string]*[len(columns)]int // the number of occurrences of each stem in each column
	sizes [len(columns)]int             // the number of words in each column
	// frequent contains the words of the name and the keywords that most descriptions contain.
	frequent []string
}

func newDocument(e *registry.Entry, sum [sha256.Size]byte) *document {
	d := &document{sum: sum, tool: e, words: make(map[string]*[len(columns)]int)}
	all := texts(e)
	d.frequent = slices.DeleteFunc(slices.Concat(all[0], all[len(all)-1]), func(w string) bool {
		return !frequent()[w]
	})
	for i, text := range all {
		d.sizes[i] = len(text)
		for _, w := range text {
			s := stem(w)
			if d.words[s] == nil {
				d.words[s] = new([len(columns)]int)
			}
			d.words[s][i]++
		}
	}
	return d
}

// table ranks the tools of one registry with BM25F. A frequent word in one column therefore counts less than a word in
// several columns, and each column has its own usual length.
type table struct {
	of        *registry.Registry
	documents []*document
	byName    map[string]*document // by the full name of the tool
	words     map[string][]posting
	frequent  map[string]bool // words that queries have although most descriptions contain them
}

// posting is the weighted frequency of a word in a tool.
type posting struct {
	document  int
	frequency float64
}

// newTable indexes the tools of a registry. It takes the words of tools that have not changed from the table "old",
// which can be nil.
func newTable(r *registry.Registry, old *table) *table {
	all := r.All()
	t := &table{of: r, byName: make(map[string]*document, len(all)), words: make(map[string][]posting),
		frequent: make(map[string]bool)}
	var usual [len(columns)]float64
	for _, e := range all {
		name, sum := e.FullName(), fingerprint(e)
		var d *document
		if old != nil && old.byName[name] != nil && old.byName[name].sum == sum {
			same := *old.byName[name]
			d, same.tool = &same, e
		} else {
			d = newDocument(e, sum)
		}
		t.documents, t.byName[name] = append(t.documents, d), d
		for _, w := range d.frequent {
			t.frequent[w] = true
		}
		for i, n := range d.sizes {
			usual[i] += float64(n) / float64(len(all))
		}
	}
	for id, d := range t.documents {
		var factors [len(columns)]float64
		for i, c := range columns {
			factors[i] = c.weight / (1 - c.norm + c.norm*float64(d.sizes[i])/max(usual[i], 0.5))
		}
		for w, counts := range d.words {
			p := posting{document: id}
			for i, n := range counts {
				if n > 0 {
					p.frequency += factors[i] * float64(n)
				}
			}
			t.words[w] = append(t.words[w], p)
		}
	}
	return t
}

// asked returns the words of a query. It omits words that most descriptions contain, unless they are keywords of a
// tool.
func (t *table) asked(query string) []string {
	return slices.DeleteFunc(every(firstCharacters(query, MaxQuery)), func(w string) bool {
		return frequent()[w] && !t.frequent[w]
	})
}

// ranked is a tool that contains a word of a query.
type ranked struct {
	*document
	score float64
}

// sentenceWeight is the share of the best sentence in the rank. It was tuned on the same sets as the columns.
const sentenceWeight = 0.75

// rank returns the tools that contain a word of a query, the best first. A query of several sentences often asks for
// several tools. So a tool also gains from the sentence that it fits best, and a short sentence counts almost as much
// as a long one.
func (t *table) rank(query string) []ranked {
	scores, sentences := t.scores(t.asked(query)), t.sentences(query)
	if len(sentences) > 1 && len(scores) > 0 {
		best, gains := slices.Max(scores), make([]float64, len(scores))
		for _, ws := range sentences {
			these := t.scores(ws)
			factor := sentenceWeight * math.Sqrt(best/max(slices.Max(these), 1e-9))
			for id, score := range these {
				gains[id] = max(gains[id], factor*score)
			}
		}
		for id, gain := range gains {
			scores[id] += gain
		}
	}
	var out []ranked
	for id, score := range scores {
		if score > 0 {
			out = append(out, ranked{t.documents[id], score})
		}
	}
	slices.SortStableFunc(out, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	return out
}

// scores returns the score of each tool for words.
func (t *table) scores(ws []string) []float64 {
	out, n := make([]float64, len(t.documents)), float64(len(t.documents))
	for _, s := range stems(ws) {
		found := t.words[s]
		rarity := math.Log(1 + (n-float64(len(found))+0.5)/(float64(len(found))+0.5))
		for _, p := range found {
			out[p.document] += rarity * p.frequency / (saturation + p.frequency)
		}
	}
	return out
}

// maxSentences limits the sentences of a query that are ranked one by one. The last one contains the rest.
const maxSentences = 20

var sentenceEnd = regexp.MustCompile(`[.!?]+\s+|\n+`)

// sentences returns the words of each sentence of a query, without sentences that have none. A nil result means that
// there is only one.
func (t *table) sentences(query string) (out [][]string) {
	all := sentenceEnd.Split(firstCharacters(query, MaxQuery), maxSentences)
	if len(all) == 1 {
		return nil
	}
	for _, s := range all {
		if ws := t.asked(s); len(ws) > 0 {
			out = append(out, ws)
		}
	}
	return out
}
