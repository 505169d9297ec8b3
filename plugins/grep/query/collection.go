package query

import (
	"slices"
	"strings"
	"sync"

	"toolhost.dev/plugins/grep/search"
)

// spot is where a file is in the order of the paths.
type spot struct {
	path string
	// place is its place among the files of an index, from 1 on; 0: it is not known. What has one is compared
	// by it.
	place int32
}

func (s spot) compare(other spot) int {
	if s.place > 0 && other.place > 0 {
		return int(s.place - other.place)
	}
	return comparePaths(s.path, other.path)
}

// found is what was found in a file.
type found struct {
	spot
	search.Result
	wanted int // matches whose lines were asked for
	kept   int // those whose lines are there
}

// collection gathers what is found, in any order, and keeps the lines of the first
// limit matches in the order of the paths.
type collection struct {
	limit int

	mu    sync.Mutex
	files []found   // what was sorted
	fresh [][]found // by worker, what came since. Usually each comes by its files in order.
	kept  int       // matches whose lines are kept
	held  int       // lines kept
	// last is the file after which no lines are wanted, once that is known.
	last    spot
	hasLast bool
}

// slack is how much more than the limit is kept before what is not wanted is dropped.
const slack = 1 << 10

// maxLines is the number of lines, with their context, that are kept in any case.
const maxLines = 1 << 16

// beyond reports whether no lines of a file are wanted, because there are enough in
// files before it.
func (c *collection) beyond(s spot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasLast && s.compare(c.last) > 0
}

// matches counts all matches.
func (c *collection) matches() (n int) {
	for _, f := range c.files {
		n += f.Matches
	}
	return n
}

// windows returns the files that have the matches from number from on and below to, and
// which of each file's they are.
func (c *collection) windows(from, to int) map[string]search.Window {
	c.sort()
	out := make(map[string]search.Window)
	n := 0 // matches of the files before
	for _, f := range c.files {
		w := search.Window{From: max(0, from-n), To: min(f.Matches, to-n)}
		if w.From < w.To {
			out[f.path] = w
		}
		n += f.Matches
	}
	return out
}

// add takes what a worker has found.
func (c *collection) add(worker int, f found) {
	for _, l := range f.Lines {
		if l.Column > 0 {
			f.kept++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.fresh) <= worker {
		c.fresh = append(c.fresh, nil)
	}
	c.fresh[worker] = append(c.fresh[worker], f)
	c.kept += f.kept
	c.held += len(f.Lines)
	if c.kept-slack > c.limit || c.held > 2*maxLines {
		c.drop()
	}
}

// sort puts all files in their order.
func (c *collection) sort() {
	for worker, files := range c.fresh {
		if !slices.IsSortedFunc(files, compareFound) {
			slices.SortFunc(files, compareFound)
		}
		c.files = merge(c.files, files)
		c.fresh[worker] = nil
	}
}

func compareFound(a, b found) int { return a.compare(b.spot) }

// merge puts two sorted lists together. It may use the memory of either.
func merge(a, b []found) []found {
	if len(a) == 0 {
		return b
	}
	out := make([]found, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareFound(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// drop gives up the lines that are not wanted.
func (c *collection) drop() {
	c.sort()
	c.kept, c.held = 0, 0
	for i := range c.files {
		f := &c.files[i]
		if c.kept >= c.limit || c.held >= maxLines {
			f.Lines, f.kept = nil, 0
			continue
		}
		c.kept += f.kept
		c.held += len(f.Lines)
		c.last, c.hasLast = f.spot, true
	}
}

// comparePaths compares paths element by element, so that what is in a directory
// stays together: "a/b" is before "a.go".
func comparePaths(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n == len(a) || n == len(b) {
		return len(a) - len(b)
	}
	switch {
	case a[n] == '/':
		return -1
	case b[n] == '/':
		return 1
	}
	return strings.Compare(a[n:], b[n:])
}
