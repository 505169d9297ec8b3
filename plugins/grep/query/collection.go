package query

import (
	"slices"
	"strings"
	"sync"

	"toolhost.dev/plugins/grep/search"
)

// spot is the position of a file in the sort order of the results.
type spot struct {
	path string
	// place is the number of the file in an index, counted from 1. Zero means that the number is unknown. Two files
	// with known numbers are compared by number. All other files are compared by path.
	place int32
}

func (s spot) compare(other spot) int {
	if s.place > 0 && other.place > 0 {
		return int(s.place - other.place)
	}
	return comparePaths(s.path, other.path)
}

// found holds the search result of one file.
type found struct {
	spot
	search.Result
	wanted int // number of matches whose lines are requested
	kept   int // number of matches whose lines are kept
}

// collection collects the results of files, which are added in any order. It keeps the lines of the first matches in
// path order. The field "limit" is the number of these matches.
type collection struct {
	limit int

	mu    sync.Mutex
	files []found   // sorted results
	fresh [][]found // new results of each worker, not yet sorted but usually in order
	kept  int       // number of matches whose lines are kept
	held  int       // number of kept lines
	// last is the last file whose lines can be part of the answer. It is valid only if hasLast is true.
	last    spot
	hasLast bool
}

// slack is the number of extra matches that are kept before unneeded lines are dropped.
const slack = 1 << 10

// maxLines is the maximum number of kept lines, including context.
const maxLines = 1 << 16

// beyond reports whether the lines of a file can be dropped because earlier files have enough matches.
func (c *collection) beyond(s spot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasLast && s.compare(c.last) > 0
}

// matches returns the number of all matches.
func (c *collection) matches() (n int) {
	for _, f := range c.files {
		n += f.Matches
	}
	return n
}

// windows returns the files that contain the matches with the numbers [from,to). The value for each file selects the
// requested matches of the file.
func (c *collection) windows(from, to int) map[string]search.Window {
	c.sort()
	out := make(map[string]search.Window)
	n := 0 // number of matches in the files before the current file
	for _, f := range c.files {
		w := search.Window{From: max(0, from-n), To: min(f.Matches, to-n)}
		if w.From < w.To {
			out[f.path] = w
		}
		n += f.Matches
	}
	return out
}

// add adds the result of one file.
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

// sort merges the new results into the sorted results.
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

// merge merges two sorted lists. It can reuse the memory of the lists.
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

// drop removes the lines that no answer needs.
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

// comparePaths compares paths element by element. The order keeps the contents of a directory together: "a/b" is before
// "a.go".
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
