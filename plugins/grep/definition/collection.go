package definition

import (
	"cmp"
	"slices"
	"sync"

	"toolhost.dev/plugins/grep/symbol"
)

// collection collects matches in any order and keeps the best matches.
type collection struct {
	query *Query
	rooms [][]Match // match buffers that are reused for every file, indexed by worker

	mu      sync.Mutex
	matches []Match
	total   int
	ranks   [symbol.Matched + 1]int
	files   int // number of files with a matching declaration or a matching name
	// last is the worst match that is still among the best. It is nil while fewer matches than requested are collected.
	last *Match
}

// slack is the number of extra matches that are collected before the list is sorted and shortened.
const slack = 1 << 12

// maxKept is the maximum number of matches in an answer to a query without a limit.
const maxKept = 100_000

func (c *collection) most() int {
	if c.query.Limit <= 0 {
		return maxKept
	}
	return c.query.Offset + c.query.Limit
}

// room returns the empty buffer of a worker. The worker appends matches to the buffer and passes it to add.
func (c *collection) room(worker int) *[]Match {
	c.rooms[worker] = c.rooms[worker][:0]
	return &c.rooms[worker]
}

// add adds the matches of a file. It copies the elements of the slice.
func (c *collection) add(matches []Match) {
	if len(matches) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += len(matches)
	c.files++
	for i := range matches {
		m := &matches[i]
		c.ranks[m.Rank]++
		if c.last == nil || c.compare(m, c.last) <= 0 {
			c.matches = append(c.matches, *m)
		}
	}
	if len(c.matches) > c.most()+slack {
		c.cut()
	}
}

// cut sorts the matches and drops all matches beyond the requested number.
func (c *collection) cut() {
	slices.SortFunc(c.matches, func(a, b Match) int { return c.compare(&a, &b) })
	if most := c.most(); len(c.matches) > most {
		clear(c.matches[most:])
		c.matches = c.matches[:most]
		if most > 0 {
			last := c.matches[most-1]
			c.last = &last
		}
	}
}

// compare orders matches by rank, then by position. If the query is a name, it orders by kind before position, so that
// a type precedes fields with the same name.
func (c *collection) compare(a, b *Match) int {
	if n := cmp.Compare(a.Rank, b.Rank); n != 0 {
		return n
	}
	if c.query.Names.Plain() {
		if n := cmp.Compare(weight(a.Symbol.Kind), weight(b.Symbol.Kind)); n != 0 {
			return n
		}
	}
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Symbol.Line, b.Symbol.Line),
		cmp.Compare(a.Symbol.Column, b.Symbol.Column),
		cmp.Compare(a.Symbol.Name, b.Symbol.Name), cmp.Compare(a.Symbol.Kind, b.Symbol.Kind))
}

// weight returns the position of a kind in the sort order. The kinds that users search for most often come first.
func weight(k symbol.Kind) int {
	switch {
	case symbol.Classes.Has(k):
		return 0
	case k == symbol.Prototype:
		return 2
	case symbol.Functions.Has(k):
		return 1
	case k == symbol.File:
		return 5
	case k == symbol.Field || k == symbol.Member:
		return 4
	}
	return 3
}

// page copies the requested range of matches into an answer.
func (c *collection) page(a *Answer) {
	c.cut()
	a.Total, a.Ranks, a.Files = c.total, c.ranks, c.files
	a.Matches = c.matches[min(c.query.Offset, len(c.matches)):]
}
